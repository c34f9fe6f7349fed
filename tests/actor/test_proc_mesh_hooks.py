"""Hooks that tell of new process meshes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from monarch._src.actor.proc_mesh import (
    get_active_proc_meshes,
    register_proc_mesh_spawn_callback,
    unregister_proc_mesh_spawn_callback,
)
from monarch.actor import ProcMesh


def test_a_callback_is_called_with_each_new_mesh_until_it_is_taken_away(spawn_procs: Callable[..., ProcMesh]) -> None:
    seen: list[ProcMesh] = []
    register_proc_mesh_spawn_callback(seen.append)
    first = spawn_procs(per_host={"gpus": 2})
    unregister_proc_mesh_spawn_callback(seen.append)
    unregister_proc_mesh_spawn_callback(seen.append)
    spawn_procs()
    assert seen == [first]


def test_a_callback_that_raises_harms_nobody(
    spawn_procs: Callable[..., ProcMesh], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(procs: ProcMesh) -> None:
        raise ValueError("from a hook")

    register_proc_mesh_spawn_callback(fail)
    assert spawn_procs().initialized.get(timeout=20)
    unregister_proc_mesh_spawn_callback(fail)
    assert "ValueError: from a hook" in capsys.readouterr().err


def test_active_meshes_are_those_that_were_not_stopped(spawn_procs: Callable[..., ProcMesh]) -> None:
    first, second = spawn_procs(), spawn_procs()
    assert {first, second} <= set(get_active_proc_meshes())
    first.stop().get(timeout=20)
    assert first not in get_active_proc_meshes() and second in get_active_proc_meshes()
