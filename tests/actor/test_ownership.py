"""Who is told of what when owners and what they own fail together."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from conftest import eventually, is_alive
from monarch.actor import MeshFailure, ProcMesh
from sample_actors import AsyncNested, Nested

Faults = list[MeshFailure]


def pids_of_owned(owner: Any) -> list[int]:
    """Let the owner spawn; the process ids of what it spawned."""
    return list(owner.own.call_one().get(timeout=60).pid.call().get(timeout=60).values())


@pytest.mark.parametrize("owned_first", [True, False])
def test_of_an_owner_and_its_owned_that_die_together_the_program_is_told_once(
    spawn_procs: Callable[..., ProcMesh], faults: Faults, owned_first: bool
) -> None:
    procs = spawn_procs(name="outer")
    owner = procs.spawn("owner", Nested)
    owned = pids_of_owned(owner)
    (pid,) = pids_of(procs)
    for victim in [owned[0], pid] if owned_first else [pid, owned[0]]:
        os.kill(victim, signal.SIGKILL)
    eventually(lambda: faults, "the program is told")
    eventually(lambda: not any(map(is_alive, owned)), "what it owned ends")
    procs.stop().get(timeout=30)
    assert [(failure.name, failure.kind) for failure in faults] == [("owner", "signal")]
    assert faults[0].report().endswith("Stopped because of it: nested")


@pytest.mark.parametrize("kind", [Nested, AsyncNested])
def test_the_failure_of_an_actor_names_what_fell_because_of_it(
    spawn_procs: Callable[..., ProcMesh], faults: Faults, kind: Any
) -> None:
    owner = spawn_procs(name="outer").spawn("owner", kind, False)
    owned = pids_of_owned(owner)
    os.kill(owned[1], signal.SIGKILL)
    eventually(lambda: faults, "the program is told")
    eventually(lambda: not any(map(is_alive, owned)), "what it owned ends")
    report = faults[0].report()
    assert "did not handle a supervision event from its child" in report
    assert "was killed by signal 9 (SIGKILL)" in report, "the first cause is kept"
    assert report.endswith("Stopped because of it: owned, nested")
    assert len(faults) == 1


def pids_of(procs: ProcMesh) -> list[int]:
    from monarch._actor.context import process

    return process().runtime.pids(procs._root.mesh)
