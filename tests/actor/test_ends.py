"""Stops and failures: who is told what, and how actors and processes end."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually, is_alive
from monarch.actor import ActorError, MeshFailure, ProcMesh, SupervisionError, this_host, this_proc
from sample_actors import (
    Async,
    AsyncNested,
    AsyncNotes,
    BadEnd,
    BadStart,
    Derived,
    Echo,
    Environment,
    Gate,
    Left,
    Nested,
    Notes,
    OwnerOfBadEnds,
    SelfStop,
    Where,
    refuse,
    set_variable,
    set_variable_async,
)

SpawnProcs = Callable[..., ProcMesh]
Faults = list[MeshFailure]


def wait_for_fault(faults: Faults) -> MeshFailure:
    eventually(lambda: faults, "a failure reaches the program")
    return faults[0]


# --- stops ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Notes, AsyncNotes])
def test_stop_runs_cleanup_once_with_none(one: ProcMesh, tmp_path: Path, kind: Any) -> None:
    notes = one.spawn("notes", kind, str(tmp_path / "notes"))
    notes.hello.call_one().get()
    assert notes.stop().get(timeout=20) is None
    notes.stop().get(timeout=0)
    assert (tmp_path / "notes").read_text() == "NoneType:None\n"


def test_stop_lets_a_running_sync_endpoint_complete_and_answer(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    gate = one.spawn("gate", Gate)
    running, waiting = gate.wait_for.call_one(str(go)), gate.count.call_one()
    eventually(Path(f"{go}.started").exists, "the endpoint runs")
    stop = gate.stop("enough")
    one.initialized.get(timeout=20)  # the process answers in order: it knows of the stop
    go.touch()
    stop.get(timeout=20)
    assert running.get() == "done"
    with pytest.raises(SupervisionError, match="stopped: enough"):
        waiting.get(timeout=20)


def test_stop_cancels_a_suspended_async_endpoint(one: ProcMesh) -> None:
    actor = one.spawn("async", Async)
    running = actor.wait_for_ever.call_one()
    actor.stop("enough").get(timeout=20)
    with pytest.raises(SupervisionError, match="stopped: enough"):
        running.get(timeout=20)


def test_stop_interrupts_a_sync_endpoint_that_does_not_end(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    gate = one.spawn("gate", Gate)
    running = gate.busy_for_ever.call_one(str(go))
    eventually(Path(f"{go}.started").exists, "the endpoint runs")
    gate.stop().get(timeout=20)
    with pytest.raises(SupervisionError):
        running.get(timeout=20)


def test_an_exception_of_cleanup_is_the_result_of_stop(one: ProcMesh) -> None:
    with pytest.raises(ActorError, match="bad end"):
        one.spawn("bad", BadEnd).stop().get(timeout=20)


def test_an_exception_of_cleanup_is_the_result_of_the_stop_of_its_processes(spawn_procs: SpawnProcs) -> None:
    procs = spawn_procs({"gpus": 2})
    procs.spawn("bad", BadEnd).hello.call().get(timeout=20)
    for stop in (procs.stop(), procs.stop()):
        with pytest.raises(ActorError, match="bad end") as caught:
            stop.get(timeout=20)
        assert isinstance(caught.value, ValueError)


def test_an_actor_hears_of_the_cleanup_in_processes_that_it_stops(one: ProcMesh) -> None:
    owner: Any = one.spawn("owner", OwnerOfBadEnds)
    assert owner.stop_them.call_one().get(timeout=60) == "bad end"


def test_stopping_processes_runs_cleanup_in_them(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    procs = spawn_procs({"gpus": 2})
    notes = procs.spawn("notes", Notes, str(tmp_path / "notes"))
    notes.hello.call().get()
    procs.stop().get(timeout=20)
    procs.stop().get(timeout=0)
    assert (tmp_path / "notes").read_text() == "NoneType:None\n" * 2


def test_async_with_stops_the_processes() -> None:
    async def use() -> list[int]:
        async with this_host().spawn_procs({"gpus": 2}) as procs:
            return list((await procs.spawn("where", Where).pid.call()).values())

    assert not any(is_alive(pid) for pid in asyncio.run(use()))


def test_an_actor_that_stops_itself_is_no_failure(one: ProcMesh, tmp_path: Path) -> None:
    quitter: Any = one.spawn("q", SelfStop)
    echo = one.spawn("echo", Echo)
    first, second = quitter.leave_in_order.call_one(str(tmp_path / "go")), quitter.hello.call_one()
    # What came by the same way after them is answered, so both are there.
    echo.pid.call_one().get()
    (tmp_path / "go").touch()
    assert first.get() == "goodbye"
    assert second.get() == "hello"
    with pytest.raises(SupervisionError, match="stopped"):
        eventually(lambda: quitter.hello.call_one().get() and False, "the actor is gone")


# --- failures of actors -----------------------------------------------------------------------------------------------


def test_a_constructor_that_fails_is_told_to_callers_and_to_the_owner(one: ProcMesh, faults: Faults) -> None:
    bad = one.spawn("bad", BadStart, ValueError("no start"))
    with pytest.raises(SupervisionError, match=r"actor bad failed: its constructor raised ValueError: no start"):
        bad.hello.call_one().get(timeout=20)
    with pytest.raises(ActorError, match="no start"):
        bad.initialized.get(timeout=20)
    failure = wait_for_fault(faults)
    assert (failure.name, failure.kind) == ("bad", "init")
    assert isinstance(failure.exception, ValueError)
    assert "sample_actors.py" in failure.report()
    assert failure.mesh == bad


def test_initialized_comes_after_the_constructors(grid: ProcMesh) -> None:
    assert grid.initialized.get(timeout=30) is True
    assert grid.spawn("echo", Echo).initialized.get(timeout=30) is None


def test_an_exception_under_broadcast_fails_the_actor_alone(grid: ProcMesh, faults: Faults) -> None:
    echo = grid.spawn("echo", Echo)
    echo.slice(row=1, col=1).fail.broadcast(KeyError("k"))
    failure = wait_for_fault(faults)
    assert [dict(point) for point in failure.ranks] == [{"row": 1, "col": 1}]
    assert failure.kind == "exception"
    with pytest.raises(
        SupervisionError, match=r"actor echo\[row=1, col=1\] failed: endpoint echo.fail raised KeyError"
    ):
        echo.slice(row=1).pid.call().get(timeout=20)
    assert len(list(echo.slice(row=0).pid.call().get())) == 2
    assert len(list(grid.spawn("again", Echo).pid.call().get())) == 4


def test_sys_exit_in_an_endpoint_fails_the_actor_and_spares_the_process(one: ProcMesh, faults: Faults) -> None:
    echo = one.spawn("leaver", Echo)
    pid = echo.pid.call_one().get()
    with pytest.raises(SupervisionError, match="raised SystemExit: 3"):
        echo.leave.call_one().get(timeout=20)
    assert wait_for_fault(faults).kind == "exception"
    assert one.spawn("next", Echo).pid.call_one().get() == pid


def test_cleanup_is_given_what_failed_the_actor(one: ProcMesh, faults: Faults, tmp_path: Path) -> None:
    notes = one.spawn("notes", Notes, str(tmp_path / "notes"))
    notes.fail.broadcast()
    wait_for_fault(faults)
    notes.stop().get(timeout=20)
    assert (tmp_path / "notes").read_text() == "ValueError:on purpose\n"


def test_a_failure_pickles_also_where_its_exception_does_not(one: ProcMesh, faults: Faults) -> None:
    one.spawn("echo", Echo).fail.broadcast(ValueError("x"))
    failure = pickle.loads(pickle.dumps(wait_for_fault(faults)))
    assert failure.report() == faults[0].report()


# --- failures of processes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_process_fails_the_pending_call_at_once(
    spawn_procs: SpawnProcs, faults: Faults, tmp_path: Path, number: signal.Signals
) -> None:
    procs = spawn_procs({"gpus": 2}, name="trainers")
    gate = procs.spawn("gate", Gate)
    pids = list(procs.spawn("where", Where).pid.call().get().values())
    pending = gate.wait_for.call(str(tmp_path / "never"))
    start = time.monotonic()
    os.kill(pids[1], number)
    text = rf"process trainers\[gpus=1\] \(pid {pids[1]} on .*\) was killed by signal {int(number)} \({number.name}\)"
    with pytest.raises(SupervisionError, match=text) as caught:
        pending.get(timeout=20)
    assert time.monotonic() - start < 1
    failure = caught.value.failure
    assert failure is not None
    assert (failure.kind, failure.signal) == ("signal", number)
    with pytest.raises(SupervisionError, match=text):
        gate.count.call().get(timeout=20)
    assert gate.slice(gpus=0).stop  # the living one can still be addressed
    (tmp_path / "never").touch()
    assert {f.name for f in [wait_for_fault(faults), *faults]} <= {"gate", "where"}
    eventually(lambda: len(faults) == 2, "one failure for each mesh of the program")


def test_an_exit_status_is_told(spawn_procs: SpawnProcs, faults: Faults) -> None:
    echo = spawn_procs(name="leavers").spawn("echo", Echo)
    with pytest.raises(SupervisionError, match=r"process leavers \(pid \d+ on .*\) exited with status 7"):
        echo.exit.call_one(7).get(timeout=20)
    assert wait_for_fault(faults).exit_code == 7


def test_choose_and_broadcast_reach_the_living(spawn_procs: SpawnProcs, faults: Faults) -> None:
    echo = spawn_procs({"gpus": 2}).spawn("echo", Echo)
    living = echo.slice(gpus=0).pid.call_one().get()
    with pytest.raises(SupervisionError):
        echo.slice(gpus=1).exit.call_one(1).get(timeout=20)
    wait_for_fault(faults)
    assert {echo.pid.choose().get(timeout=20) for _ in range(20)} == {living}
    echo.echo.broadcast(1)
    assert echo.slice(gpus=0).echo.call_one(2).get(timeout=20) == 2


def test_a_bootstrap_that_fails_is_told_by_initialized_and_by_every_call(
    spawn_procs: SpawnProcs, faults: Faults
) -> None:
    procs = spawn_procs(bootstrap=refuse)
    with pytest.raises(ActorError, match="not on my watch"):
        procs.initialized.get(timeout=30)
    with pytest.raises(SupervisionError, match="not on my watch"):
        procs.spawn("echo", Echo).pid.call_one().get(timeout=30)
    assert not faults


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_bootstrap_runs_before_any_actor(spawn_procs: SpawnProcs, kind: str) -> None:
    procs = spawn_procs(bootstrap=set_variable if kind == "sync" else set_variable_async)
    assert procs.spawn("env", Environment).get.call_one("MONARCH_TEST_VALUE").get() == "set"


# --- owners -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Nested, AsyncNested])
def test_an_actor_that_handles_the_failure_of_what_it_owns_lives_on(one: ProcMesh, kind: Any) -> None:
    owner = one.spawn("owner", kind)
    owned = owner.own.call_one().get(timeout=30)
    pids = list(owned.pid.call().get().values())
    os.kill(pids[0], signal.SIGKILL)
    eventually(lambda: owner.seen.call_one().get(), "the owner is told")
    [failure] = owner.seen.call_one().get()
    assert (failure.name, failure.signal, [point.rank for point in failure.ranks]) == ("owned", signal.SIGKILL, [0])
    assert owned.slice(gpus=1).pid.call_one().get() == pids[1]
    owner.stop().get(timeout=30)
    assert not any(map(is_alive, pids))


@pytest.mark.parametrize("kind", [Nested, AsyncNested])
def test_a_failure_that_the_owner_does_not_handle_climbs(one: ProcMesh, faults: Faults, kind: Any) -> None:
    owner = one.spawn("owner", kind, False)
    owned = owner.own.call_one().get(timeout=30)
    pids = list(owned.pid.call().get().values())
    os.kill(pids[0], signal.SIGKILL)
    failure = wait_for_fault(faults)
    assert failure.name == "owner"
    assert "did not handle a supervision event from its child" in failure.report()
    assert "SIGKILL" in failure.report()
    with pytest.raises(SupervisionError, match="did not handle"):
        owner.seen.call_one().get(timeout=20)
    eventually(lambda: not any(map(is_alive, pids)), "what the owner owned is gone with it")


def test_what_an_actor_spawned_ends_when_its_process_is_killed(spawn_procs: SpawnProcs, faults: Faults) -> None:
    procs = spawn_procs()
    owned = procs.spawn("owner", Nested).own.call_one().get(timeout=30)
    pids = list(owned.pid.call().get().values())
    os.kill(procs.spawn("where", Where).pid.call_one().get(), signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, pids)), "what the owner owned is gone with it")
    eventually(lambda: {failure.name for failure in faults} == {"owner", "where"}, "both meshes are told of")


def test_actors_spawn_in_their_own_process(one: ProcMesh) -> None:
    nested = one.spawn("nested", Nested)
    assert nested.own_neighbour.call_one().get() == one.spawn("where", Where).pid.call_one().get()


def test_actors_run_in_the_programs_own_process_too() -> None:
    local = this_proc().spawn("local", Echo)
    assert local.pid.call_one().get(timeout=20) == os.getpid()
    left = this_proc().spawn("left", Left)
    local.stop().get(timeout=20)
    left.stop().get(timeout=20)


def test_threads_of_the_program_are_the_program(one: ProcMesh) -> None:
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(one.spawn("t", Derived).pid.call_one().get()))
    thread.start()
    thread.join()
    assert seen


def test_errors_show_nothing_of_the_inside(spawn_procs: SpawnProcs, faults: Faults, tmp_path: Path) -> None:
    """No stack of native code, no source line of it, no name that users cannot import."""
    procs = spawn_procs({"gpus": 3})
    notes = procs.spawn("notes", Notes, str(tmp_path / "notes"))
    where = procs.spawn("where", Where)
    raised = notes.slice(gpus=0).fail.call_one().exception(timeout=20)
    not_made = procs.slice(gpus=1).spawn("bad", BadStart, ValueError("refused")).hello.call_one().exception(timeout=20)
    os.kill(where.slice(gpus=2).pid.call_one().get(timeout=20), signal.SIGKILL)
    killed = where.slice(gpus=2).pid.call_one().exception(timeout=20)
    notes.stop().get(timeout=20)
    with pytest.raises(SupervisionError) as stopped:
        notes.hello.call().get(timeout=20)
    eventually(lambda: any(failure.kind == "signal" for failure in faults), "the program is told")
    told = [failure.report() for failure in faults]
    for text in [*map(str, (raised, not_made, killed, stopped.value)), *told]:
        for part in ("backtrace", "panicked", ".rs:", "monarch.service", "monarch_hyperactor", "_native."):
            assert part not in text
    assert isinstance(raised, ActorError) and isinstance(killed, SupervisionError) and not_made is not None
