"""A stop ends in bounded time, whatever the actor does, and is no failure."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually, is_alive
from monarch._actor.local import overtime, process
from monarch.actor import Actor, MeshFailure, ProcMesh, SupervisionError, endpoint, this_proc
from monarch.config import configured
from sample_actors import Echo, Where

SpawnProcs = Callable[..., ProcMesh]
Faults = list[MeshFailure]


class Blocks(Actor):
    """Blocks somewhere, where no exception reaches it, and says so by a file."""

    def __init__(self, where: str, path: str) -> None:
        self.where, self.path = where, path
        self.block("constructor")

    def block(self, where: str) -> None:
        if self.where == where:
            Path(self.path).touch()
            time.sleep(3600)

    @endpoint
    def work(self) -> None:
        self.block("endpoint")

    def __cleanup__(self, exc: Exception | None) -> None:
        self.block("cleanup")


class AsyncBlocks(Blocks):
    @endpoint
    async def async_work(self) -> None:
        self.block("async endpoint")

    @endpoint
    async def swallow(self) -> None:
        Path(self.path).touch()
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)


class Waits(Actor):
    """Waits for an event of the program that it lives in."""

    def __init__(self, path: str) -> None:
        self.path = path

    @endpoint
    def work(self) -> None:
        Path(self.path).touch()
        released.wait()


released = threading.Event()


@pytest.fixture
def impatient() -> Iterator[None]:
    """Processes that are started meanwhile do not wait long for their actors."""
    with configured(stop_grace_period="200ms", cleanup_timeout="200ms"):
        yield


@pytest.mark.usefixtures("impatient")
def test_a_stop_ends_the_process_of_an_actor_that_blocks(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    """Wherever it blocks. The owner, who stopped it, is told of no failure."""
    cases = ["endpoint", "constructor", "cleanup", "async endpoint", "swallow"]
    procs = spawn_procs({"case": len(cases)})
    where = procs.spawn("where", Where)
    pids = list(where.pid.call().get().values())
    where.stop().get(timeout=30)  # who has another actor there would be told
    actors: list[Any] = []
    calls = []
    for number, case in enumerate(cases):
        kind = AsyncBlocks if case in ("async endpoint", "swallow") else Blocks
        actor: Any = procs.slice(case=number).spawn("blocks", kind, case, str(tmp_path / str(number)))
        actors.append(actor)
        calls.append({"async endpoint": "async_work", "swallow": "swallow"}.get(case, "work"))
    waiting = [getattr(actor, call).call_one() for actor, call in zip(actors, calls)]
    for number, case in enumerate(cases):
        if case != "cleanup":
            eventually((tmp_path / str(number)).exists, f"it blocks in its {case}")
    waiting[cases.index("cleanup")].get(timeout=30)
    for stop in [actor.stop() for actor in actors]:
        assert stop.get(timeout=60) is None
    eventually(lambda: not any(map(is_alive, pids)), "the processes are gone")
    for number, call in enumerate(waiting):
        if cases[number] != "cleanup":
            with pytest.raises(SupervisionError):
                call.get(timeout=30)


@pytest.mark.usefixtures("impatient")
def test_who_has_another_actor_in_a_process_that_a_stop_ends_is_told(
    spawn_procs: SpawnProcs, faults: Faults, tmp_path: Path
) -> None:
    procs = spawn_procs()
    echo, blocks = procs.spawn("echo", Echo), procs.spawn("blocks", Blocks, "constructor", str(tmp_path / "in"))
    eventually((tmp_path / "in").exists, "it blocks")
    blocks.stop().get(timeout=60)
    eventually(lambda: faults, "the program is told")
    assert [(failure.name, failure.kind, failure.signal) for failure in faults] == [("echo", "signal", signal.SIGKILL)]
    assert "was killed: its actor blocks did not end when it was stopped" in faults[0].report()
    with pytest.raises(SupervisionError, match="its actor blocks did not end"):
        echo.pid.call_one().get(timeout=30)


@pytest.mark.usefixtures("impatient")
def test_a_process_that_a_stop_ended_can_be_replaced(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    procs = spawn_procs()
    blocks = procs.spawn("blocks", Blocks, "constructor", str(tmp_path / "in"))
    eventually((tmp_path / "in").exists, "it blocks")
    blocks.stop().get(timeout=60)
    procs.respawn().get(timeout=30)
    assert procs.spawn("where", Where).pid.call_one().get(timeout=30) != os.getpid()


def test_a_stop_ends_a_process_that_does_not_even_answer_it(
    spawn_procs: SpawnProcs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is stopped, or whose interpreter is held by native code."""
    monkeypatch.setattr(process, "actor_stop_s", lambda: 0.2)
    where = spawn_procs().spawn("where", Where)
    pid = where.pid.call_one().get(timeout=30)
    os.kill(pid, signal.SIGSTOP)
    assert where.stop().get(timeout=30) is None
    eventually(lambda: not is_alive(pid), "the process is gone")


@pytest.mark.usefixtures("impatient")
def test_a_blocked_actor_in_the_programs_own_process_is_reported_and_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(overtime, "GIVE_UP_AFTER_S", 0.1)
    released.clear()
    waits = this_proc().spawn("waits", Waits, str(tmp_path / "in"))
    call = waits.work.call_one()
    eventually((tmp_path / "in").exists, "it waits")
    try:
        assert waits.stop().get(timeout=30) is None
        with pytest.raises(SupervisionError, match="stopped"):
            call.get(timeout=30)
        assert "so its thread is abandoned" in capfd.readouterr().err
        assert this_proc().spawn("where", Where).pid.call_one().get(timeout=30) == os.getpid()
    finally:
        released.set()
    eventually(lambda: not any(t.name == "waits[0]" for t in threading.enumerate()), "its thread ends")


def test_what_was_not_acknowledged_at_a_stop_fails_nobody(spawn_procs: SpawnProcs) -> None:
    procs = spawn_procs({"gpus": 2})
    echo = procs.spawn("echo", Echo)
    calls = [echo.pid.call() for _ in range(50)]
    for _ in range(50):
        echo.pid.broadcast()
    stop = echo.stop("enough")
    calls += [echo.pid.call() for _ in range(50)]
    stop.get(timeout=30)
    for call in calls:
        call.exception(timeout=30)
    assert len(procs.spawn("where", Where).pid.call().get(timeout=30)) == 2
