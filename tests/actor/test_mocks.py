"""Test doubles take the place of classes of actors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from monarch._src.actor.mock import patch_actor, patch_tensor_engine
from monarch.actor import Actor, ProcMesh, context, endpoint, this_host, this_proc

WITHIN_S = 20.0


class Original(Actor):
    @endpoint
    def who(self) -> str:
        return "original"


class Double(Actor):
    @endpoint
    def who(self) -> str:
        return "double"


class Spawner(Actor):
    """Spawns the original itself, here and in a process of its own."""

    @endpoint
    def who_is_spawned(self) -> list[str]:
        procs = [this_proc(), this_host().spawn_procs()]
        return [p.spawn("nested", Original).who.call_one().get(timeout=WITHIN_S) for p in procs]


class Engine(Actor):
    @endpoint
    def device_mesh(self) -> Any:
        return context().actor_instance.spawn_tensor_engine(this_proc())


def device_mesh(procs: ProcMesh) -> str:
    return f"device mesh on {len(procs)}"


def who(procs: ProcMesh) -> str:
    return procs.spawn("who", Original).who.call_one().get(timeout=WITHIN_S)


def test_line_30_a_class_is_replaced_inside_the_context_and_not_after_it(one: ProcMesh) -> None:
    with patch_actor(Original, Double):
        assert who(one) == "double"
    assert who(one) == "original"


def test_a_patch_inside_another_one_wins_until_its_end(one: ProcMesh) -> None:
    class Other(Double):
        @endpoint
        def who(self) -> str:
            return "other"

    with patch_actor(Original, Double):
        with patch_actor(Original, Other):
            assert who(one) == "other"
        assert who(one) == "double"


def test_it_decorates_functions_and_async_functions(one: ProcMesh) -> None:
    @patch_actor(Original, Double)
    def patched() -> str:
        return who(one)

    @patch_actor(Original, Double)
    async def patched_async() -> str:
        return await one.spawn("who", Original).who.call_one()

    async def in_context() -> str:
        async with patch_actor(Original, Double):
            return await one.spawn("who", Original).who.call_one()

    assert patched() == "double"
    assert asyncio.run(patched_async()) == "double"
    assert asyncio.run(in_context()) == "double"
    assert who(one) == "original"


def test_processes_that_are_spawned_meanwhile_replace_it_too(spawn_procs: Callable[..., ProcMesh]) -> None:
    with patch_actor(Original, Double):
        procs = spawn_procs()
        assert procs.spawn("s", Spawner).who_is_spawned.call_one().get(timeout=WITHIN_S) == ["double", "double"]


def test_what_is_no_class_of_actors_can_be_no_double() -> None:
    with pytest.raises(ValueError, match="is not a class derived from"):
        patch_actor(Original, dict)


def test_a_tensor_engine_is_what_a_test_says(spawn_procs: Callable[..., ProcMesh], one: ProcMesh) -> None:
    with patch_tensor_engine(Engine, device_mesh):
        engine = spawn_procs().spawn("engine", Engine)
        assert engine.device_mesh.call_one().get(timeout=WITHIN_S) == "device mesh on 1"
    with pytest.raises(NotImplementedError, match="no tensor engine in this version"):
        one.spawn("engine", Engine).device_mesh.call_one().get(timeout=WITHIN_S)
    with pytest.raises(NotImplementedError, match="give a factory"):
        patch_tensor_engine(Engine)
