"""One mistake never ends the program, and nothing waits in silence."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually
from monarch.actor import Actor, ActorError, MeshFailure, ProcMesh, SupervisionError, concurrent_endpoint, endpoint

WITHIN_S = 20.0

Faults = list[MeshFailure]


class NotUnpicklable:
    def __reduce__(self) -> tuple[Any, ...]:
        return refuse, ()


def refuse() -> None:
    raise ValueError("does not unpickle")


class Plain(Actor):
    def __init__(self) -> None:
        self.calls = 0

    @endpoint
    def take(self, *values: Any) -> int:
        self.calls += 1
        return self.calls

    @endpoint
    def cancelled(self) -> None:
        raise asyncio.CancelledError("of its own")

    @endpoint
    def wait_for(self, path: str) -> None:
        open(f"{path}.begun", "w").close()
        while not os.path.exists(path):
            time.sleep(0.002)


class Async(Actor):
    def __init__(self) -> None:
        self.calls = 0

    @endpoint
    async def take(self, *values: Any) -> int:
        self.calls += 1
        return self.calls

    @endpoint
    async def cancelled(self) -> None:
        raise asyncio.CancelledError("of its own")

    @endpoint
    async def wait_for(self, path: str) -> None:
        open(f"{path}.begun", "w").close()
        while not os.path.exists(path):
            await asyncio.sleep(0.002)


class Concurrent(Async):
    @concurrent_endpoint
    async def take(self, *values: Any) -> int:
        self.calls += 1
        return self.calls

    @concurrent_endpoint
    async def cancelled(self) -> None:
        raise asyncio.CancelledError("of its own")


class Caller(Actor):
    @endpoint
    def call(self, other: Any, path: str) -> None:
        other.wait_for.call_one(path).get()

    @endpoint
    def try_to_call(self, other: Any) -> str:
        other.take.broadcast()
        try:
            other.take.call_one().get(timeout=WITHIN_S)
        except SupervisionError as error:
            return str(error)
        return "answered"


kinds = pytest.mark.parametrize("kind", [Plain, Async, Concurrent])


@kinds
def test_an_argument_that_does_not_unpickle_is_the_askers_error(grid: ProcMesh, kind: type[Any]) -> None:
    actors = grid.slice(row=0).spawn("actors", kind)
    bad = NotUnpicklable()
    for ask in (
        lambda: actors.take.call(bad).get(timeout=WITHIN_S),
        lambda: actors.take.choose(bad).get(timeout=WITHIN_S),
        lambda: next(actors.take.stream(1, bad)).get(timeout=WITHIN_S),
        lambda: actors.slice(col=0).take.call_one(bad).get(timeout=WITHIN_S),
    ):
        with pytest.raises(ActorError, match="does not unpickle") as caught:
            ask()
        assert isinstance(caught.value, ValueError)
    actors.take.broadcast(bad)
    assert list(actors.take.call().get(timeout=WITHIN_S).values()) == [1, 1]


@kinds
def test_a_cancelled_error_out_of_an_endpoint_is_the_askers_error(grid: ProcMesh, kind: type[Any]) -> None:
    actors = grid.slice(row=0).spawn("actors", kind)
    actors.cancelled.broadcast()
    with pytest.raises(ActorError, match="CancelledError: of its own"):
        actors.cancelled.call().get(timeout=WITHIN_S)
    assert list(actors.take.call().get(timeout=WITHIN_S).values()) == [1, 1]


@pytest.mark.parametrize("kind", [Plain, Async])
def test_a_caller_that_vanishes_leaves_who_it_called_alone(
    spawn_procs: Callable[..., ProcMesh], one: ProcMesh, faults: Faults, tmp_path: Path, kind: type[Any]
) -> None:
    called = one.spawn("called", kind)
    procs = spawn_procs()
    caller = procs.spawn("caller", Caller)
    go = tmp_path / "go"
    call = caller.call.call_one(called, str(go))
    eventually(Path(f"{go}.begun").exists, "the call has begun")
    from monarch._actor.context import process

    process().runtime.kill_proc(procs._root.mesh, 0, signal.SIGKILL)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        call.get(timeout=WITHIN_S)
    go.touch()
    assert called.take.call_one().get(timeout=WITHIN_S) == 1
    eventually(lambda: [fault.name for fault in faults] == ["caller"], "only the caller's end is a failure")


@kinds
def test_a_call_to_a_mesh_that_was_stopped_is_an_error_wherever_it_comes_from(
    one: ProcMesh, grid: ProcMesh, kind: type[Any]
) -> None:
    stopped = one.spawn("stopped", kind)
    stopped.stop("no longer needed").get(timeout=WITHIN_S)
    with pytest.raises(SupervisionError, match="'stopped' was stopped: no longer needed"):
        stopped.take.call_one().get(timeout=WITHIN_S)
    callers = grid.spawn("callers", Caller)
    for _ in range(2):  # whoever has met the error once is still there
        for text in callers.try_to_call.call(stopped).get(timeout=WITHIN_S).values():
            assert "was stopped: no longer needed" in text


@kinds
def test_a_constructor_that_fails_is_told_with_its_own_traceback(
    one: ProcMesh, grid: ProcMesh, faults: Faults, kind: type[Any]
) -> None:
    class Fails(kind):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            raise KeyError("from the constructor")

    failed = one.spawn("failed", Fails)
    callers = grid.slice(row=0, col=0).spawn("callers", Caller)
    with pytest.raises(SupervisionError, match="from the constructor") as here:
        failed.take.call_one().get(timeout=WITHIN_S)
    elsewhere = callers.try_to_call.call_one(failed).get(timeout=WITHIN_S)
    eventually(lambda: faults, "the owner is told")
    for text in (str(here.value), elsewhere, faults[0].report()):
        assert "in __init__" in text and 'raise KeyError("from the constructor")' in text
    assert (faults[0].kind, type(faults[0].exception)) == ("init", KeyError)
