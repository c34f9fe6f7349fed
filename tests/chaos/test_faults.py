"""Every kind of fault by itself: who is told what, who lives on, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chaotic_actors import ENDS, AsyncFragile, Fragile, Plan, die_here
from conftest import eventually, is_alive
from monarch._actor.context import process
from monarch.actor import ActorError, MeshFailure, ProcMesh, SupervisionError
from monarch.config import parametrize_config

SpawnProcs = Callable[..., ProcMesh]
Faults = list[MeshFailure]

both_kinds = pytest.mark.parametrize("kind", [Fragile, AsyncFragile])


def spawn(procs: ProcMesh, plan: Plan | None = None, kind: type[Fragile] = Fragile, name: str = "mesh") -> Any:
    return procs.spawn(name, kind, plan or Plan())


def the_fault(faults: Faults) -> MeshFailure:
    """The only failure that reaches the program."""
    eventually(lambda: faults, "a failure reaches the program")
    [failure] = faults
    return failure


def ranks(failure: MeshFailure) -> list[int]:
    return [point.rank for point in failure.ranks]


# --- ends of processes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ENDS)
def test_a_process_that_ends_fails_its_callers_and_is_told_to_its_owner(
    spawn_procs: SpawnProcs, faults: Faults, how: str
) -> None:
    mesh = spawn(spawn_procs({"r": 2}))
    _, kind, number = ENDS[how]
    with pytest.raises(SupervisionError) as caught:
        mesh.slice(r=1).do.call_one(how).get(timeout=20)
    failure = the_fault(faults)
    for seen in (caught.value.failure, failure):
        assert seen is not None
        assert (seen.kind, seen.signal if kind == "signal" else seen.exit_code, ranks(seen)) == (kind, number, [1])
    assert mesh.slice(r=0).pid.call_one().get(timeout=20)


def test_a_stopped_process_is_not_dead_and_answers_once_it_goes_on(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    mesh = spawn(spawn_procs({"r": 2}))
    stopped, living = mesh.pid.call().get().values()
    os.kill(stopped, signal.SIGSTOP)
    pending = mesh.pid.call()
    with pytest.raises(TimeoutError):
        pending.get(timeout=0.05)
    assert mesh.slice(r=1).pid.call_one().get(timeout=20) == living
    os.kill(stopped, signal.SIGCONT)
    assert list(pending.get(timeout=20).values()) == [stopped, living]


def test_a_stopped_process_that_is_killed_is_dead(spawn_procs: SpawnProcs, faults: Faults) -> None:
    mesh = spawn(spawn_procs({"r": 2}))
    stopped, _ = mesh.pid.call().get().values()
    os.kill(stopped, signal.SIGSTOP)
    pending = mesh.pid.call()
    os.kill(stopped, signal.SIGKILL)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        pending.get(timeout=20)
    assert ranks(the_fault(faults)) == [0]


@parametrize_config(process_exit_timeout=["200ms"])
def test_stop_ends_a_stopped_process(spawn_procs: SpawnProcs) -> None:
    procs = spawn_procs({"r": 2})
    pids = list(spawn(procs).pid.call().get().values())
    os.kill(pids[0], signal.SIGSTOP)
    procs.stop().get(timeout=20)
    assert not any(map(is_alive, pids))


# --- exceptions -------------------------------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("how", ["raise", "raise unpicklable"])
def test_an_exception_in_a_call_is_the_callers_alone(spawn_procs: SpawnProcs, kind: Any, how: str) -> None:
    mesh = spawn(spawn_procs(), kind=kind)
    with pytest.raises(ActorError, match="raised on purpose"):
        mesh.do.call_one(how).get(timeout=20)
    assert mesh.pid.call_one().get(timeout=20)


@both_kinds
@pytest.mark.parametrize("how", ["raise", "raise unpicklable", "sys.exit"])
def test_an_exception_that_nobody_waits_for_fails_the_actor(
    spawn_procs: SpawnProcs, faults: Faults, kind: Any, how: str
) -> None:
    mesh = spawn(spawn_procs({"r": 2}), kind=kind)
    mesh.slice(r=1).do.broadcast(how)
    failure = the_fault(faults)
    assert (failure.kind, ranks(failure)) == ("exception", [1])
    assert "SystemExit: 3" in failure.report() if how == "sys.exit" else "raised on purpose" in failure.report()
    assert mesh.slice(r=0).pid.call_one().get(timeout=20)


@both_kinds
@pytest.mark.parametrize("how", ["raise", "raise unpicklable", "sys.exit"])
def test_an_exception_in_a_constructor_fails_its_actor(
    spawn_procs: SpawnProcs, faults: Faults, kind: Any, how: str
) -> None:
    procs = spawn_procs()
    mesh = spawn(procs, Plan(init=how), kind)
    with pytest.raises(SupervisionError, match="its constructor raised"):
        mesh.pid.call_one().get(timeout=20)
    assert the_fault(faults).kind == "init"
    assert spawn(procs).pid.call_one().get(timeout=20)


def test_a_process_that_ends_in_a_constructor_fails_its_callers_and_is_told(
    spawn_procs: SpawnProcs, faults: Faults
) -> None:
    mesh = spawn(spawn_procs({"r": 2}), Plan(init="exit"))
    with pytest.raises(SupervisionError, match="exited with status 7"):
        mesh.pid.call().get(timeout=20)
    with pytest.raises(SupervisionError, match="exited with status 7"):
        mesh.initialized.get(timeout=20)
    eventually(lambda: sorted(rank for failure in faults for rank in ranks(failure)) == [0, 1], "both are told")
    assert {failure.kind for failure in faults} == {"exit"}


@both_kinds
@pytest.mark.parametrize("how", ["raise", "raise unpicklable", "sys.exit"])
def test_an_exception_in_supervise_fails_the_owner(
    spawn_procs: SpawnProcs, faults: Faults, kind: Any, how: str
) -> None:
    owner = spawn(spawn_procs(), Plan(supervise=how), kind, "owner")
    owned = owner.own.call_one("owned", 2, Plan()).get(timeout=30)
    pids = list(owned.pid.call().get().values())
    os.kill(pids[0], signal.SIGKILL)
    failure = the_fault(faults)
    assert (failure.name, failure.kind) == ("owner", "exception")
    assert "its __supervise__, told of [owned-" in failure.report()
    assert "SIGKILL" in failure.report()
    eventually(lambda: not any(map(is_alive, pids)), "what the owner owned ends with it")


@both_kinds
def test_a_process_that_ends_in_supervise_takes_along_what_its_actors_own(
    spawn_procs: SpawnProcs, faults: Faults, kind: Any
) -> None:
    owner = spawn(spawn_procs(), Plan(supervise="exit"), kind, "owner")
    owned = owner.own.call_one("owned", 2, Plan()).get(timeout=30)
    pids = list(owned.pid.call().get().values())
    os.kill(pids[0], signal.SIGKILL)
    failure = the_fault(faults)
    assert (failure.name, failure.kind, failure.exit_code) == ("owner", "exit", 7)
    eventually(lambda: not any(map(is_alive, pids)), "what the owner owned ends with it")


@both_kinds
@pytest.mark.parametrize("how", ["raise", "raise unpicklable", "sys.exit"])
def test_an_exception_in_cleanup_is_no_failure(spawn_procs: SpawnProcs, kind: Any, how: str) -> None:
    procs = spawn_procs()
    mesh = spawn(procs, Plan(cleanup=how), kind)
    mesh.pid.call_one().get()
    with pytest.raises(ActorError):
        mesh.stop().get(timeout=20)
    assert spawn(procs).pid.call_one().get(timeout=20)


@both_kinds
def test_an_exception_in_the_cleanup_of_what_it_owns_is_printed_and_does_not_keep_an_owner_from_ending(
    run_program: Callable[..., subprocess.CompletedProcess[str]], kind: Any
) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from chaotic_actors import {kind.__name__}, Plan
from monarch.actor import this_host

owner = this_host().spawn_procs().spawn("owner", {kind.__name__})
owner.own.call_one("owned", 1, Plan(cleanup="raise")).get()
owner.stop().get()
"""
    done = run_program("-c", program)
    assert done.returncode == 0, done.stderr
    assert "never retrieved" not in done.stderr
    assert done.stderr.count("ValueError: raised on purpose") == 1


# --- bad moments ------------------------------------------------------------------------------------------------------


def test_a_process_that_is_killed_while_it_starts_is_told_to_who_waits(spawn_procs: SpawnProcs, faults: Faults) -> None:
    procs = spawn_procs({"r": 2})
    mesh = spawn(procs)
    pids: list[int] = []
    eventually(lambda: pids.extend(process().runtime.pids(procs._root.mesh)) or all(pids[-2:]), "both are started")
    os.kill(pids[-1], signal.SIGKILL)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        procs.initialized.get(timeout=20)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        mesh.pid.call().get(timeout=20)
    assert ranks(the_fault(faults)) == [1]
    assert mesh.slice(r=0).pid.call_one().get(timeout=20)


def test_a_process_that_dies_in_its_bootstrap_is_told_to_who_waits(spawn_procs: SpawnProcs, faults: Faults) -> None:
    procs = spawn_procs(bootstrap=die_here)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        procs.initialized.get(timeout=20)
    assert the_fault(faults).kind == "signal"
    with pytest.raises(SupervisionError, match="SIGKILL"):
        spawn(procs).pid.call_one().get(timeout=20)


def test_a_death_during_a_cast_loses_nothing_of_the_living(spawn_procs: SpawnProcs, faults: Faults) -> None:
    mesh = spawn(spawn_procs({"r": 3}))
    pids = list(mesh.pid.call().get().values())
    for sent in range(2000):
        mesh.count.broadcast()
        if sent == 1000:
            os.kill(pids[1], signal.SIGKILL)
    assert mesh.slice(r=0).counted.call_one().get(timeout=20) == 2000
    assert mesh.slice(r=2).counted.call_one().get(timeout=20) == 2000
    assert ranks(the_fault(faults)) == [1]


def test_a_death_during_a_gathered_call_is_told_with_what_the_living_answered(
    spawn_procs: SpawnProcs, faults: Faults, tmp_path: Path
) -> None:
    mesh = spawn(spawn_procs({"r": 3}))
    pids = list(mesh.pid.call().get().values())
    pending = mesh.wait_for.call(str(tmp_path / "never"))
    eventually(lambda: len(list(tmp_path.iterdir())) == 3, "all are at it")
    os.kill(pids[2], signal.SIGKILL)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        pending.get(timeout=20)
    (tmp_path / "never").touch()
    assert ranks(the_fault(faults)) == [2]


@pytest.mark.parametrize("how", ["sigkill", "exit", "segfault"])
def test_a_process_that_dies_in_its_cleanup_has_stopped_with_its_mesh(spawn_procs: SpawnProcs, how: str) -> None:
    procs = spawn_procs({"r": 2})
    mesh = spawn(procs, Plan(cleanup=how))
    pids = list(mesh.pid.call().get().values())
    procs.stop("enough").get(timeout=20)
    assert not any(map(is_alive, pids))
    with pytest.raises(SupervisionError, match="stopped: enough"):
        mesh.pid.call().get(timeout=20)


def test_a_process_that_is_killed_during_the_stop_of_its_mesh_is_no_failure(
    spawn_procs: SpawnProcs, tmp_path: Path
) -> None:
    procs = spawn_procs({"r": 2})
    mesh = spawn(procs)
    pids = list(mesh.pid.call().get().values())
    pending = mesh.wait_for.call(str(tmp_path / "go"))
    eventually(lambda: len(list(tmp_path.iterdir())) == 2, "both are at it")
    stop = procs.stop("enough")
    os.kill(pids[0], signal.SIGKILL)
    (tmp_path / "go").touch()
    stop.get(timeout=20)
    with pytest.raises(SupervisionError):
        pending.get(timeout=20)


def test_a_process_that_dies_in_the_cleanup_of_its_actor_is_a_failure_of_the_processes(
    spawn_procs: SpawnProcs, faults: Faults
) -> None:
    procs = spawn_procs({"r": 2}, name="procs")
    mesh = spawn(procs, Plan(cleanup="exit"))
    mesh.pid.call().get()
    mesh.stop().get(timeout=20)
    eventually(lambda: sorted(rank for failure in faults for rank in ranks(failure)) == [0, 1], "both are told")
    assert {(failure.name, failure.kind, failure.exit_code) for failure in faults} == {("procs", "exit", 7)}


# --- owners -----------------------------------------------------------------------------------------------------------


@both_kinds
def test_an_owner_hears_no_more_of_what_it_has_stopped(spawn_procs: SpawnProcs, kind: type[Fragile]) -> None:
    owner = spawn(spawn_procs(), Plan(handles=False), kind)
    owner.stop_what_has_died.call_one().get(timeout=60)
    assert owner.told.call_one().get(timeout=20) == []


@both_kinds
@pytest.mark.parametrize("how", ["sigkill", "exit", "segfault", "sys.exit"])
def test_the_death_of_an_owner_ends_what_it_owns_at_any_depth(
    spawn_procs: SpawnProcs, faults: Faults, kind: Any, how: str
) -> None:
    owner = spawn(spawn_procs(), kind=kind, name="owner")
    child = owner.own.call_one("child", 1, Plan()).get(timeout=30)
    grandchild = child.own.call_one("grandchild", 1, Plan()).get(timeout=30)
    pids = [child.pid.call_one().get(), grandchild.pid.call_one().get()]
    owner.do.broadcast(how)
    failure = the_fault(faults)
    assert failure.name == "owner"
    eventually(lambda: not any(map(is_alive, pids)), "what it owned is gone")
    for mesh in (child, grandchild):
        with pytest.raises(SupervisionError, match=r"stopped|owner"):
            mesh.pid.call_one().get(timeout=20)


def test_an_async_owner_is_told_beside_a_suspended_endpoint(spawn_procs: SpawnProcs) -> None:
    owner = spawn(spawn_procs(), kind=AsyncFragile, name="owner")
    owned = owner.own.call_one("owned", 1, Plan()).get(timeout=30)
    pending = owner.until_told.call_one()
    os.kill(owned.pid.call_one().get(), signal.SIGKILL)
    assert pending.get(timeout=30) == 1
