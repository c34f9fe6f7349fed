"""Actors that are restarted by a policy, with real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually
from monarch._actor.recovery.restarter import Restarter
from monarch.actor import MeshFailure, ProcMesh, RestartPolicy, SupervisionError
from recovering_actors import Boss, FailsToStart, Worker

SpawnProcs = Callable[..., ProcMesh]
Faults = list[MeshFailure]

FAST = RestartPolicy(backoff=(0.01, 0.1))


def answers(mesh: Any) -> list[int] | None:
    """The pids where all members answer, else None."""
    try:
        return list(mesh.pid.call().get(timeout=20).values())
    except SupervisionError:
        return None


def come_back(mesh: Any) -> list[int]:
    """The pids once all members answer again."""
    found: list[list[int] | None] = []
    eventually(lambda: found.append(answers(mesh)) or found[-1], "all members answer again")
    return found[-1] or []


def die(send: Callable[[], Any]) -> None:
    with pytest.raises(SupervisionError):
        send().get(timeout=20)


def test_an_actor_that_fails_is_restarted_and_nobody_is_told(spawn_procs: SpawnProcs) -> None:
    workers = spawn_procs({"w": 3}).supervised(FAST).spawn("workers", Worker)
    pids = come_back(workers)
    assert list(workers.count.call().get().values()) == [1, 1, 1]
    die(workers.slice(w=1).end.call_one)
    assert come_back(workers) == pids
    assert list(workers.count.call().get().values()) == [2, 1, 2]


def test_a_process_that_dies_is_replaced_and_nobody_is_told(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    workers = spawn_procs({"w": 3}).supervised(FAST).spawn("workers", Worker)
    before = come_back(workers)
    for _ in range(3):
        pid = workers.slice(w=1).pid.call_one().get()
        pending = workers.slice(w=1).wait_for.call_one(str(tmp_path / "never"))
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(SupervisionError):
            pending.get(timeout=20)
        after = come_back(workers)
        assert (after[0], after[2]) == (before[0], before[2])
        assert after[1] != pid


def test_a_process_that_dies_while_another_is_replaced_is_replaced_too(
    spawn_procs: SpawnProcs, monkeypatch: pytest.MonkeyPatch
) -> None:
    procs = spawn_procs({"w": 2})
    workers: Any = procs.supervised(FAST).spawn("workers", Worker)
    before = come_back(workers)
    replace = Restarter._replace_dead_processes

    def replace_while_the_other_dies(restarter: Restarter) -> list[int]:
        replaced = replace(restarter)
        if replaced == [1]:
            os.kill(before[0], signal.SIGKILL)
            eventually(lambda: procs._targets().deaths(), "the death is known")
        return replaced

    monkeypatch.setattr(Restarter, "_replace_dead_processes", replace_while_the_other_dies)
    os.kill(before[1], signal.SIGKILL)
    eventually(lambda: set(answers(workers) or before).isdisjoint(before), "both are new")


def test_all_for_one_makes_the_others_anew_too(spawn_procs: SpawnProcs) -> None:
    policy = RestartPolicy("all_for_one", backoff=(0.01, 0.1))
    workers = spawn_procs({"w": 2}).supervised(policy).spawn("workers", Worker)
    assert list(workers.count.call().get().values()) == [1, 1]
    die(workers.slice(w=1).end.call_one)

    def the_other_one_is_new() -> bool:
        try:
            return bool(workers.slice(w=0).count.call_one().get() == 1)
        except SupervisionError:
            return False  # it is being made

    eventually(the_other_one_is_new, "the other one is new")
    come_back(workers)


def test_a_constructor_that_fails_is_tried_again(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    path = tmp_path / "failures"
    path.write_text("3")
    starter: Any = spawn_procs().supervised(FAST).spawn("starter", FailsToStart, str(path))

    def says_hello() -> bool:
        try:
            return bool(starter.hello.call_one().get(timeout=20) == "hello")
        except SupervisionError:
            return False

    eventually(says_hello, "the fourth constructor succeeds")
    assert path.read_text() == "0"


def test_more_failures_than_the_policy_allows_go_upwards_and_say_so(spawn_procs: SpawnProcs, faults: Faults) -> None:
    policy = RestartPolicy(max_restarts=2, window_s=600, backoff=(0.01, 0.02))
    worker = spawn_procs().supervised(policy).spawn("worker", Worker)
    for _ in range(2):
        die(worker.end.call_one)
        come_back(worker)
    assert not faults
    die(worker.end.call_one)
    eventually(lambda: faults, "the failure reaches the program")
    [failure] = faults
    assert (failure.name, failure.kind) == ("worker", "exception")
    assert "the restart policy of 'worker' is exhausted (2 restarts within 600 s)" in failure.report()
    die(worker.pid.call_one)


def test_a_policy_without_restarts_tells_at_once(spawn_procs: SpawnProcs, faults: Faults) -> None:
    worker = spawn_procs().supervised(RestartPolicy(max_restarts=0)).spawn("worker", Worker)
    die(worker.end_process.call_one)
    eventually(lambda: faults, "the failure reaches the program")
    assert faults[0].exit_code == 7
    assert "is exhausted (0 restarts" in faults[0].report()


def test_meshes_on_one_process_come_back_together(spawn_procs: SpawnProcs) -> None:
    supervised = spawn_procs({"w": 2}).supervised(FAST)
    first, second = supervised.spawn("first", Worker), supervised.spawn("second", Worker)
    come_back(first), come_back(second)
    for _ in range(3):
        die(first.slice(w=0).end_process.call_one)
        pids = come_back(first)
        assert come_back(second) == pids


def test_members_of_a_view_of_processes_are_restarted(spawn_procs: SpawnProcs) -> None:
    procs = spawn_procs({"w": 3})
    workers = procs.slice(w=slice(1, 3)).supervised(FAST).spawn("workers", Worker)
    before = come_back(workers)
    die(workers.slice(w=1).end_process.call_one)
    after = come_back(workers)
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_a_restart_ends_with_the_stop_of_its_mesh(spawn_procs: SpawnProcs) -> None:
    policy = RestartPolicy(backoff=(0.05, 0.05))
    procs = spawn_procs()
    worker: Any = procs.supervised(policy).spawn("worker", Worker)
    die(worker.end.call_one)
    worker.stop().get(timeout=20)
    die(worker.pid.call_one)
    assert procs.spawn("next", Worker).count.call_one().get(timeout=20) == 1


def test_an_actor_that_owns_supervised_actors_is_told_when_they_are_given_up(spawn_procs: SpawnProcs) -> None:
    boss: Any = spawn_procs().spawn("boss", Boss)
    worker = boss.own.call_one(RestartPolicy(max_restarts=1, backoff=(0.01, 0.01))).get(timeout=20)
    [before] = come_back(worker)
    die(worker.end_process.call_one)
    [after] = come_back(worker)
    assert before != after
    assert boss.seen.call_one().get() == []
    die(worker.end_process.call_one)
    eventually(lambda: boss.seen.call_one().get(), "the owner is told")
    [failure] = boss.seen.call_one().get()
    assert "is exhausted (1 restarts" in failure.report()
    boss.stop().get(timeout=20)


def test_supervision_needs_a_policy(spawn_procs: SpawnProcs) -> None:
    procs: Any = spawn_procs()
    with pytest.raises(TypeError, match="a RestartPolicy is needed"):
        procs.supervised("one_for_one")
    with pytest.raises(ValueError, match="derived from"):
        procs.supervised(FAST).spawn("x", int)
