"""Recovery in place: actors and processes are made again where they ended, and references stay valid."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Faults, eventually
from monarch.actor import Actor, ActorError, MeshFailure, ProcMesh, SupervisionError, endpoint, this_host
from sample_actors import Echo


class Counter(Actor):
    """Counts from where its constructor's argument says."""

    def __init__(self, start: int) -> None:
        self.value = start

    @endpoint
    def next(self) -> int:
        self.value += 1
        return self.value

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def end(self) -> None:
        raise SystemExit(3)

    @endpoint
    def why_not(self, other: Counter) -> str:
        """Why a call to another one fails."""
        return str(other.next.call_one().exception())  # type: ignore[attr-defined]

    @endpoint
    def next_of(self, other: Counter) -> int:
        return other.next.call_one().get()  # type: ignore[attr-defined, no-any-return]


class Fragile(Actor):
    """Its constructor fails while a file is missing."""

    def __init__(self, path: str) -> None:
        open(path).close()

    @endpoint
    def pid(self) -> int:
        return os.getpid()


class OwnsElsewhere(Actor):
    """Owns counters in processes that belong to somebody else."""

    @endpoint
    def own(self, procs: ProcMesh) -> Counter:
        self.counters: Any = procs.spawn("counters", Counter, 0)
        return self.counters  # type: ignore[no-any-return]

    @endpoint
    def end(self) -> None:
        self.counters.stop("enough").get()


class Replacer(Actor):
    """Owns a counter, and makes it again in a new process when that dies."""

    @endpoint
    def own(self) -> Counter:
        self.procs = this_host().spawn_procs()
        self.counter: Any = self.procs.spawn("counter", Counter, 0)
        return self.counter  # type: ignore[no-any-return]

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.procs.respawn().get()
        self.counter.respawn(failure.ranks).get()
        return True


def values(mesh: Counter) -> list[int]:
    return list(mesh.next.call().get().values())  # type: ignore[attr-defined]


def kill(mesh: Counter, rank: int) -> None:
    """Kill the process of one actor, and wait until callers know."""
    pid = list(mesh.pid.call().get().values())[rank]  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        while True:
            mesh.pid.call().get(timeout=20)  # type: ignore[attr-defined]


def test_an_actor_that_failed_is_made_again_in_its_process(grid: ProcMesh, faults: Faults) -> None:
    counters = grid.spawn("counters", Counter, 10)
    pids = list(counters.pid.call().get().values())
    assert values(counters) == [11, 11, 11, 11]
    with pytest.raises(SupervisionError):
        counters.slice(row=0, col=1).end.call_one().get()
    counters.respawn().get()
    assert values(counters) == [12, 11, 12, 12]
    assert list(counters.pid.call().get().values()) == pids


def test_the_ranks_of_a_failure_say_where_to_respawn(grid: ProcMesh, faults: Faults) -> None:
    counters = grid.spawn("counters", Counter, 0)
    counters.slice(row=1).end.broadcast()
    eventually(lambda: sum(len(failure.ranks) for failure in faults) == 2, "both deaths are told")
    for failure in faults:
        counters.respawn(failure.ranks).get()
    assert values(counters) == [1, 1, 1, 1]


def test_a_named_rank_is_made_again_although_it_lives(grid: ProcMesh) -> None:
    counters = grid.spawn("counters", Counter, 0)
    values(counters)
    counters.respawn([0]).get()
    assert values(counters) == [1, 2, 2, 2]


def test_a_process_that_died_is_replaced_at_its_rank_and_references_stay_valid(
    spawn_procs: Callable[..., ProcMesh], faults: Faults
) -> None:
    procs = spawn_procs({"w": 3})
    counters = procs.spawn("counters", Counter, 0)
    first, last = counters.slice(w=0), counters.slice(w=2)
    assert last.next_of.call_one(first).get() == 1
    kill(counters, 0)
    with pytest.raises(ActorError, match="SIGKILL"):
        last.next_of.call_one(first).get()
    procs.respawn().get()
    counters.respawn().get()
    # The client's old reference and the one that the other worker has been sent both mean the new process.
    assert first.next.call_one().get() == 1
    assert last.next_of.call_one(first).get() == 2
    assert len(set(counters.pid.call().get().values())) == 3
    assert [failure.kind for failure in faults] == ["signal"]


def test_a_process_that_lives_is_replaced_without_a_failure(
    spawn_procs: Callable[..., ProcMesh], faults: Faults
) -> None:
    procs = spawn_procs({"w": 2})
    counters = procs.spawn("counters", Counter, 0)
    before = list(counters.pid.call().get().values())
    procs.respawn([1]).get()
    counters.respawn([1]).get()
    after = list(counters.pid.call().get().values())
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert faults == []


def test_a_process_can_be_replaced_again_and_again(spawn_procs: Callable[..., ProcMesh], faults: Faults) -> None:
    procs = spawn_procs({"w": 2})
    counters = procs.spawn("counters", Counter, 0)
    for _ in range(5):
        kill(counters, 1)
        procs.respawn().get()
        counters.respawn([1]).get()
    assert values(counters.slice(w=1)) == [1]
    assert len(faults) == 5


def test_each_death_is_told_also_to_who_replaces_the_dead_all_the_time(
    spawn_procs: Callable[..., ProcMesh], faults: Faults
) -> None:
    procs = spawn_procs({"w": 4})
    echoes: Any = procs.spawn("echoes", Echo)
    with ThreadPoolExecutor(4) as threads:
        for life in range(1, 11):
            pids = list(echoes.pid.call().get(timeout=30).values())
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            calls = [echoes.slice(w=rank).pid.call_one() for rank in range(4)]
            errors = [threads.submit(call.exception, timeout=20) for call in calls]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            until = time.monotonic() + 20
            while sum(len(failure.ranks) for failure in faults) < 4 * life:
                assert time.monotonic() < until, f"of {4 * life} deaths these were told: {faults}"
                procs.respawn().get(timeout=20)
                faults.wait_for_more(0.0005)  # or on a busy machine those who bring the news may not run for seconds
            assert all(isinstance(error.result(), SupervisionError) for error in errors)
            procs.respawn().get(timeout=20)
            echoes.respawn().get(timeout=20)


def test_the_failure_of_an_actor_in_a_replaced_process_is_told(
    spawn_procs: Callable[..., ProcMesh], faults: Faults, tmp_path: Path
) -> None:
    procs = spawn_procs({"w": 2})
    kill(procs.spawn("counters", Counter, 0), 1)
    eventually(lambda: faults, "the death is told")
    procs.respawn().get()
    procs.spawn("fragile", Fragile, str(tmp_path / "missing"))
    told = [(0, "init"), (1, "init"), (1, "signal")]
    eventually(lambda: sorted((point.rank, f.kind) for f in faults for point in f.ranks) == told, "all are told")


@pytest.mark.parametrize("owner", ["the owner of the processes", "another owner"])
def test_callers_of_actors_that_were_stopped_before_their_process_was_replaced_fail_at_once(
    spawn_procs: Callable[..., ProcMesh], faults: Faults, owner: str
) -> None:
    procs = spawn_procs({"w": 2})
    callers: Any = spawn_procs(name="callers").spawn("caller", Counter, 0)
    if owner == "another owner":
        owners: Any = spawn_procs(name="owners").spawn("owner", OwnsElsewhere)
        counters = owners.own.call_one(procs).get(timeout=30)
    else:
        counters = procs.spawn("counters", Counter, 0)
    first = counters.slice(w=0)
    assert callers.next_of.call_one(first).get(timeout=30) == 1
    stop = owners.end.call_one() if owner == "another owner" else counters.stop("enough")
    stop.get(timeout=30)
    procs.respawn([0]).get(timeout=30)
    began = time.monotonic()
    # The caller may not have heard of the new process yet; then it is told of the end of the old one.
    while "was stopped: enough" not in (error := callers.why_not.call_one(first).get(timeout=60)):
        assert "another process takes its place" in error
    assert time.monotonic() - began < 10, "nobody waited for an actor that does not come"


def test_an_actor_makes_again_what_it_owns_while_others_call_that(one: ProcMesh) -> None:
    replacer: Any = one.spawn("replacer", Replacer)
    counter = replacer.own.call_one().get(timeout=30)
    pid = counter.pid.call_one().get(timeout=30)
    for _ in range(10):
        os.kill(pid, signal.SIGKILL)
        while (error := counter.pid.call_one().exception(timeout=30)) is not None:
            assert isinstance(error, SupervisionError) and "SIGKILL" in str(error)
        before, pid = pid, counter.pid.call_one().get(timeout=30)
        assert pid != before
    replacer.stop().get(timeout=30)


def test_respawn_of_actors_on_a_dead_process_says_so(spawn_procs: Callable[..., ProcMesh], faults: Faults) -> None:
    counters = spawn_procs({"w": 2}).spawn("counters", Counter, 0)
    kill(counters, 0)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        counters.respawn([0]).get(timeout=20)


def test_a_constructor_that_fails_again_is_the_result_of_respawn(one: ProcMesh, faults: Faults, tmp_path: Path) -> None:
    path = tmp_path / "wanted"
    fragile = one.spawn("fragile", Fragile, str(path))
    with pytest.raises(ActorError, match="FileNotFoundError"):
        fragile.initialized.get(timeout=20)
    with pytest.raises(FileNotFoundError):
        fragile.respawn().get(timeout=20)
    path.touch()
    fragile.respawn().get(timeout=20)
    assert fragile.pid.call_one().get()


def test_only_an_owner_respawns_what_is_not_stopped(one: ProcMesh) -> None:
    echo = one.spawn("echo", Echo)
    with pytest.raises(NotImplementedError, match="only the actor mesh that `spawn` returned"):
        echo.slice().respawn()
    with pytest.raises(IndexError, match="has no rank 7: it has 1 members"):
        echo.respawn([7])
    echo.stop().get()
    with pytest.raises(RuntimeError, match="it was stopped"):
        echo.respawn()
