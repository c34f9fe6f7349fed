"""Calls with options: time limits, early errors, repetitions."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually
from monarch.actor import ActorError, MeshFailure, ProcMesh, RestartPolicy, SupervisionError
from recovering_actors import Worker
from sample_actors import Async

SpawnProcs = Callable[..., ProcMesh]
Faults = list[MeshFailure]


@pytest.fixture(scope="module")
def pair() -> Iterator[ProcMesh]:
    """Two processes for a whole module."""
    from conftest import _spawner

    for spawn in _spawner():
        yield spawn({"w": 2})


def runs_in(path: Path, pid: int) -> Callable[[], bool]:
    return Path(f"{path}.{pid}").exists


# --- time limits ------------------------------------------------------------------------------------------------------


def test_a_timeout_names_who_has_not_answered_and_counts_who_has(pair: ProcMesh, tmp_path: Path) -> None:
    workers: Any = pair.spawn("workers", Worker)
    workers.count.call().get()
    go = tmp_path / "go"
    held = workers.slice(w=1).wait_for.call_one(str(go))
    with pytest.raises(TimeoutError, match=r"workers.pid: no result after 1 s: 1 of 2 ranks have answered, not .*1"):
        workers.pid.options(timeout=1).call().get(timeout=20)
    go.touch()
    held.get(timeout=20)


def test_a_timeout_withdraws_the_call_from_actors_that_have_not_begun_it(pair: ProcMesh, tmp_path: Path) -> None:
    worker: Any = pair.slice(w=0).spawn("worker", Worker)
    go = tmp_path / "go"
    held = worker.wait_for.call_one(str(go))
    with pytest.raises(TimeoutError, match=r"worker.count: no result after 0.1 s$"):
        worker.count.options(timeout=0.1).call_one().get(timeout=20)
    # What came by the same link before this answer has arrived: the withdrawal too.
    pair.slice(w=0).spawn("neighbour", Worker).count.call_one().get(timeout=20)
    go.touch()
    held.get(timeout=20)
    assert worker.count.call_one().get() == 1


def test_a_timeout_cancels_a_running_async_endpoint(pair: ProcMesh) -> None:
    actor: Any = pair.slice(w=0).spawn("actor", Async)
    actor.seen.call_one().get()
    with pytest.raises(TimeoutError):
        actor.wait_for_ever.options(timeout=0.5).call_one().get(timeout=20)
    # Served only after the endpoint before it has ended.
    assert actor.seen.call_one().get(timeout=20) == ["waits", "cancelled"]


def test_a_timeout_comes_to_those_who_await(pair: ProcMesh) -> None:
    actor: Any = pair.slice(w=0).spawn("actor", Async)

    async def wait() -> None:
        await actor.wait_for_ever.options(timeout=0.05).call_one()

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_a_call_within_its_time_has_its_value(pair: ProcMesh) -> None:
    workers: Any = pair.spawn("workers", Worker)
    assert list(workers.count.options(timeout=20).call().get().values()) == [1, 1]
    assert workers.slice(w=0).count.options(timeout=20).call_one().get() == 2
    assert workers.count.options(timeout=20).choose().get() in (2, 3)


def test_timeouts_end_in_their_order_whatever_the_order_of_the_calls(pair: ProcMesh) -> None:
    actor: Any = pair.slice(w=0).spawn("actor", Async)
    late = actor.wait_for_ever.options(timeout=600).call_one()
    early = actor.wait_for_ever.options(timeout=0.05).call_one()
    with pytest.raises(TimeoutError):
        early.get(timeout=20)
    assert not late.done()
    late.cancel()


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1}, {"timeout": float("inf")}, {"retry": -1}])
def test_senseless_options_are_refused(pair: ProcMesh, options: dict[str, Any]) -> None:
    workers: Any = pair.spawn("workers", Worker)
    with pytest.raises(ValueError, match=next(iter(options))):
        workers.count.options(**options)


def test_wrong_use_is_an_error_at_the_call(pair: ProcMesh) -> None:
    workers: Any = pair.spawn("workers", Worker)
    with pytest.raises(TypeError):
        workers.count.options(timeout=1).call("too much")
    with pytest.raises(ValueError, match="exactly 1 actor"):
        workers.count.options(timeout=1).call_one()
    stopped: Any = pair.spawn("stopped", Worker)
    stopped.stop().get()
    with pytest.raises(SupervisionError, match="was stopped"):
        stopped.count.options(timeout=1, retry=3).call().get()


def test_cancelling_a_call_with_options_cancels_it_remotely(pair: ProcMesh) -> None:
    actor: Any = pair.slice(w=0).spawn("actor", Async)
    call = actor.wait_for_ever.options(timeout=600, retry=1).call_one()
    assert call.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        call.get(timeout=20)
    # Served only after the endpoint before it has ended.
    assert actor.seen.call_one().get(timeout=20) in ([], ["waits", "cancelled"])


# --- early errors -----------------------------------------------------------------------------------------------------


def test_fail_fast_raises_with_the_first_exception(pair: ProcMesh, tmp_path: Path) -> None:
    workers: Any = pair.spawn("workers", Worker)
    go = tmp_path / "go"
    with pytest.raises(ValueError, match="refused") as caught:
        workers.wait_or_refuse.options(fail_fast=True).call(str(go), 1).get(timeout=20)
    error: Any = caught.value
    assert ([point.rank for point in error.failures], error.results) == ([1], {})
    patient = workers.wait_or_refuse.call(str(go), 1)
    assert not patient.done()
    go.touch()
    with pytest.raises(ActorError, match="refused"):
        patient.get(timeout=20)


def test_fail_fast_raises_what_arrived_first_however_late_it_is_looked_at(pair: ProcMesh, tmp_path: Path) -> None:
    workers: Any = pair.spawn("workers", Worker)
    go = tmp_path / "go"
    with callback_thread_held(workers.count.call()):
        call = workers.refuse_once_there.options(fail_fast=True).call(str(go), [0])
        # What a rank sends arrives in order: after this its error is here.
        workers.slice(w=1).count.call_one().get(timeout=20)
        go.touch()
        workers.slice(w=0).count.call_one().get(timeout=20)
    with pytest.raises(ValueError, match="refused by 1"):
        call.get(timeout=20)


@contextmanager
def callback_thread_held(future: Any) -> Iterator[None]:
    """Nothing is called back meanwhile; `future` is one that will be done."""
    held, release = threading.Event(), threading.Event()
    future.add_done_callback(lambda _: (held.set(), release.wait(60)))
    assert held.wait(20)
    yield
    release.set()


def test_fail_fast_without_an_exception_has_all_values(pair: ProcMesh) -> None:
    workers: Any = pair.spawn("workers", Worker)
    assert list(workers.count.options(fail_fast=True).call().get(timeout=20).values()) == [1, 1]


# --- repetitions ------------------------------------------------------------------------------------------------------


def test_a_call_that_failed_is_repeated_once_its_actor_is_there_again(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    workers: Any = spawn_procs({"w": 2}).supervised(RestartPolicy()).spawn("workers", Worker)
    before = list(workers.pid.call().get().values())
    answer = workers.slice(w=1).end_process_once.options(retry=1).call_one(str(tmp_path / "mark")).get(timeout=20)
    assert answer == workers.slice(w=1).pid.call_one().get() != before[1]
    assert workers.slice(w=0).pid.call_one().get() == before[0]


def test_a_repeated_call_to_many_has_the_values_of_all(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    workers: Any = spawn_procs({"w": 2}).supervised(RestartPolicy(backoff=(0, 0))).spawn("workers", Worker)
    mark = tmp_path / "mark"
    pids = workers.end_process_once.options(retry=5).call(str(mark)).get(timeout=20).values()
    assert list(pids) == list(workers.pid.call().get().values())


def test_a_call_is_repeated_only_as_often_as_it_says(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    worker: Any = spawn_procs().supervised(RestartPolicy(max_restarts=100, backoff=(0, 0))).spawn("worker", Worker)
    lives = tmp_path / "lives"
    with pytest.raises(SupervisionError, match="exited with status 7"):
        worker.note_and_end_process.options(retry=2).call_one(str(lives)).get(timeout=20)
    assert len(set(lives.read_text().split())) == 3


def test_an_exception_of_an_endpoint_is_not_repeated(pair: ProcMesh) -> None:
    workers: Any = pair.spawn("workers", Worker)
    with pytest.raises(ValueError, match="no"):
        workers.refuse.options(retry=5).call("no").get(timeout=20)


def test_choose_is_repeated_at_another_actor(spawn_procs: SpawnProcs, faults: Faults, tmp_path: Path) -> None:
    workers: Any = spawn_procs({"w": 2}).spawn("workers", Worker)
    pids = list(workers.pid.call().get().values())
    answer = workers.end_process_once.options(retry=1).choose(str(tmp_path / "mark")).get(timeout=20)
    assert answer in pids
    assert os.path.exists(f"/proc/{answer}")
    eventually(lambda: faults, "the death is told")


def test_a_timeout_also_ends_the_wait_for_a_repetition(spawn_procs: SpawnProcs, faults: Faults) -> None:
    worker: Any = spawn_procs().spawn("worker", Worker)
    worker.initialized.get(timeout=20)  # else the call would run out of time before it has begun
    with pytest.raises(TimeoutError, match="no result after 3 s"):
        worker.end_process.options(timeout=3, retry=5).call_one().get(timeout=20)
    eventually(lambda: faults, "the death is told")
