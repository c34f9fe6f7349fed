"""What goes on after a failure: who called the dead, who shares a process with them, who only refers to them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually
from monarch.actor import Actor, MeshFailure, ProcMesh, SupervisionError, endpoint, this_host, this_proc
from sample_actors import Echo, Gate, Where

SpawnProcs = Callable[..., ProcMesh]
Faults = list[MeshFailure]

WITHIN_S = 60.0


class Persistent(Actor):
    """Owns an actor that fails, handles that, and goes on calling it."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    @endpoint
    def lose_one(self) -> None:
        self.echo = this_host().spawn_procs(name="lost").spawn("echo", Echo)
        os.kill(self.echo.pid.call_one().get(), signal.SIGKILL)

    @endpoint
    def seen(self) -> list[str]:
        return self.failures

    @endpoint
    def call_the_dead(self) -> str:
        try:
            self.echo.pid.call_one().get()
        except SupervisionError as error:
            self.echo.pid.broadcast()
            return str(error)
        return "it lives"

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.failures.append(failure.name)
        return True


class Refers(Actor):
    """Calls what it was only given a reference to."""

    @endpoint
    def wait_for(self, gate: Any, path: str) -> str:
        try:
            return str(gate.wait_for.call_one(path).get())
        except SupervisionError as error:
            return str(error)


class OwnsGate(Actor):
    @endpoint
    def gate(self) -> Any:
        return this_host().spawn_procs(name="gates").spawn("gate", Gate)

    @endpoint
    def pid(self) -> int:
        return os.getpid()


def test_a_call_to_the_dead_fails_the_call_and_not_its_caller(one: ProcMesh) -> None:
    persistent = one.spawn("persistent", Persistent)
    persistent.lose_one.call_one().get(timeout=WITHIN_S)
    eventually(lambda: persistent.seen.call_one().get(timeout=WITHIN_S), "the owner is told")
    for _ in range(3):
        assert "was killed by signal 9" in persistent.call_the_dead.call_one().get(timeout=WITHIN_S)
    assert persistent.seen.call_one().get(timeout=WITHIN_S) == ["echo"]
    persistent.stop().get(timeout=WITHIN_S)


def test_a_process_takes_new_actors_after_one_in_it_failed(one: ProcMesh, faults: Faults) -> None:
    failing = one.spawn("failing", Echo)
    failing.fail.broadcast(ValueError("enough"))
    eventually(lambda: faults, "the program is told")
    assert one.spawn("where", Where).pid.call_one().get(timeout=WITHIN_S) != os.getpid()


def test_the_programs_own_process_takes_new_actors_after_one_in_it_failed(faults: Faults) -> None:
    failing = this_proc().spawn("failing", Echo)
    failing.fail.broadcast(ValueError("enough"))
    eventually(lambda: faults, "the program is told")
    where = this_proc().spawn("where", Where)
    assert where.pid.call_one().get(timeout=WITHIN_S) == os.getpid()
    where.stop().get(timeout=WITHIN_S)


def test_who_only_refers_to_actors_learns_at_once_that_their_owner_died(
    spawn_procs: SpawnProcs, faults: Faults, tmp_path: Path
) -> None:
    procs = spawn_procs({"gpus": 2})
    owner, refers = procs.slice(gpus=0).spawn("owner", OwnsGate), procs.slice(gpus=1).spawn("refers", Refers)
    gate = owner.gate.call_one().get(timeout=WITHIN_S)
    waits = refers.wait_for.call_one(gate, str(tmp_path / "never"))
    eventually((tmp_path / "never.started").exists, "the call is under way")
    os.kill(owner.pid.call_one().get(timeout=WITHIN_S), signal.SIGKILL)
    assert "its owner ended" in waits.get(timeout=WITHIN_S)
    eventually(lambda: faults, "the program is told")


def test_a_spawn_on_a_dead_process_fails_at_once_and_can_be_stopped(spawn_procs: SpawnProcs, faults: Faults) -> None:
    procs = spawn_procs({"gpus": 2})
    where = procs.spawn("where", Where)
    os.kill(next(iter(where.pid.call().get(timeout=WITHIN_S).values())), signal.SIGKILL)
    eventually(lambda: faults, "the program is told")
    late = procs.spawn("late", Where)
    with pytest.raises(SupervisionError, match="was killed by signal 9"):
        late.initialized.get(timeout=WITHIN_S)
    assert late.slice(gpus=1).pid.call_one().get(timeout=WITHIN_S) > 0
    assert late.stop().get(timeout=WITHIN_S) is None


def test_a_storm_of_deaths_is_told_once_for_each_rank(spawn_procs: SpawnProcs, faults: Faults) -> None:
    where = spawn_procs({"gpus": 4}).spawn("where", Where)
    for pid in where.pid.call().get(timeout=WITHIN_S).values():
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: sum(len(failure.ranks) for failure in faults) >= 4, "the program is told")
    told = sorted(point.rank for failure in faults for point in failure.ranks)
    assert told == [0, 1, 2, 3]
    assert {(failure.name, failure.signal) for failure in faults} == {("where", signal.SIGKILL)}


def test_a_broadcast_warns_once_of_the_dead_that_it_skips(
    spawn_procs: SpawnProcs, faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    procs = spawn_procs({"gpus": 3})
    echo = procs.spawn("echo", Echo)
    pids = list(echo.pid.call().get(timeout=WITHIN_S).values())
    echo.pid.broadcast()
    os.kill(pids[1], signal.SIGKILL)
    eventually(lambda: faults, "the death is told")
    echo.pid.broadcast()
    echo.slice(gpus=0).pid.broadcast()
    echo.slice(gpus=slice(1, 3)).pid.broadcast()
    [first] = caplog.records
    assert (first.name, first.levelname) == ("monarch", "WARNING")
    assert first.getMessage() == (
        "echo.pid.broadcast skips 1 of 3: actor echo[gpus=1] (its process was killed by signal 9 (SIGKILL))"
    )
    # The living get it, and whoever died and lives again may be warned of again.
    assert echo.slice(gpus=2).pid.call_one().get(timeout=WITHIN_S) == pids[2]
    procs.respawn().get(timeout=WITHIN_S)
    echo.respawn().get(timeout=WITHIN_S)
    echo.pid.broadcast()
    os.kill(echo.slice(gpus=1).pid.call_one().get(timeout=WITHIN_S), signal.SIGKILL)
    eventually(lambda: len(faults) == 2, "the second death is told")
    echo.pid.broadcast()
    assert len(caplog.records) == 2
