"""A host that was lost: what cannot be started there, and another one in its place."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from conftest import eventually
from host_actors import Keeping, Placed
from host_programs import HostProgram
from monarch.actor import HostMesh, MeshFailure, ProcMesh, SupervisionError, this_host

Start = Callable[..., HostProgram]
Attach = Callable[..., HostMesh]


def _lost(programs: list[HostProgram], hosts: HostMesh, placed: Placed, rank: int) -> None:
    """Kill one host's program, and wait until that is known."""
    call = placed.slice(hosts=rank, gpu=0).sleep.call_one()
    programs[rank].kill()
    with pytest.raises(SupervisionError):
        call.get(timeout=60)


def _spawned(hosts: HostMesh) -> tuple[ProcMesh, Placed]:
    procs = hosts.spawn_procs({"gpu": 2}, name="workers")
    placed = procs.spawn("placed", Placed)
    placed.where.call().get(timeout=60)
    return procs, placed


def test_a_respawn_on_a_lost_host_says_which_it_is_and_starts_nothing(
    start_host: Start, attach: Attach, faults: list[MeshFailure]
) -> None:
    programs = [start_host("tcp://127.0.0.1:0", "--name", name) for name in ("left", "right")]
    hosts = attach([program.address for program in programs])
    procs, placed = _spawned(hosts)
    _lost(programs, hosts, placed, 1)
    for ranks in (None, [3], [0, 2]):
        with pytest.raises(RuntimeError, match=r"processes 'workers': its host right is lost: .*`HostMesh.replace`"):
            procs.respawn(ranks).get(timeout=60)
    # Those of the other host were left alone.
    assert placed.slice(hosts=0).where.call().get(timeout=60).extent.sizes == (2,)


def test_another_host_takes_the_place_of_a_lost_one(
    start_host: Start, attach: Attach, faults: list[MeshFailure]
) -> None:
    programs = [start_host() for _ in range(4)]
    hosts = attach([program.address for program in programs])
    procs, placed = _spawned(hosts)
    _lost(programs, hosts, placed, 2)
    spare = start_host()
    hosts.replace(2, spare.address).get(timeout=60)
    procs.respawn().get(timeout=60)
    placed.respawn().get(timeout=60)
    on = [pid for _, pid in placed.host_program.call().get(timeout=60).items()]
    programs[2] = spare
    assert on == [program.process.pid for program in programs for _ in range(2)]
    # In both directions, with workers of a host that was there before.
    new, old = placed.slice(hosts=2, gpu=1), placed.slice(hosts=0, gpu=0)
    assert old.ask.call_one(new).get(timeout=60) == new.where.call_one().get(timeout=60)[0]
    assert new.ask.call_one(old).get(timeout=60) == old.where.call_one().get(timeout=60)[0]
    more = hosts.slice(hosts=2).spawn_procs(name="more").spawn("more", Placed)
    assert more.host_program.call_one().get(timeout=60) == spare.process.pid


def test_a_process_of_the_new_host_that_dies_is_known_and_respawned(
    start_host: Start, attach: Attach, faults: list[MeshFailure]
) -> None:
    programs = [start_host(), start_host()]
    hosts = attach([program.address for program in programs])
    procs, placed = _spawned(hosts)
    _lost(programs, hosts, placed, 1)
    hosts.replace(1, start_host().address).get(timeout=60)
    procs.respawn().get(timeout=60)
    placed.respawn().get(timeout=60)
    member = placed.slice(hosts=1, gpu=0)
    pid = member.where.call_one().get(timeout=60)[0]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(SupervisionError, match=f"pid {pid}"):
        while True:
            member.where.call_one().get(timeout=60)
    procs.respawn().get(timeout=60)
    placed.respawn([2]).get(timeout=60)
    assert member.where.call_one().get(timeout=60)[0] != pid
    eventually(lambda: [f for f in faults if f.kind == "signal"], "the owner is told")


def test_an_actor_that_owns_processes_on_a_lost_host_respawns_them_there(
    start_host: Start, attach: Attach, faults: list[MeshFailure]
) -> None:
    programs = [start_host(), start_host()]
    hosts = attach([program.address for program in programs])
    owner = hosts.slice(hosts=0).spawn_procs(name="owner").spawn("owner", Keeping)
    owner.spawn_to_keep.call_one(hosts.slice(hosts=1)).get(timeout=60)
    programs[1].kill()
    assert "is lost" in owner.respawn_kept.call_one().get(timeout=60)
    spare = start_host()
    hosts.replace(1, spare.address).get(timeout=60)
    assert owner.respawn_kept.call_one().get(timeout=60) == str(spare.process.pid)


def test_a_host_that_never_came_is_replaced(start_host: Start, attach: Attach, faults: list[MeshFailure]) -> None:
    gone = start_host()
    gone.kill()
    hosts = attach([start_host().address, gone.address], patience_s=0.0)
    procs = hosts.spawn_procs({"gpu": 2}, name="workers")
    placed = procs.spawn("placed", Placed)
    with pytest.raises(RuntimeError, match=gone.address):
        hosts.initialized.get(timeout=60)
    spare = start_host()
    hosts.replace(1, spare.address).get(timeout=60)
    assert hosts.initialized.get(timeout=60)
    procs.respawn().get(timeout=60)
    placed.respawn().get(timeout=60)
    assert placed.slice(hosts=1, gpu=0).host_program.call_one().get(timeout=60) == spare.process.pid


def test_only_a_lost_host_is_replaced_and_only_by_who_attached_it(
    start_host: Start, attach: Attach, faults: list[MeshFailure]
) -> None:
    hosts = attach(2)
    hosts.initialized.get(timeout=60)
    with pytest.raises(RuntimeError, match="only one that is lost can be replaced"):
        hosts.replace(0, start_host().address).get(timeout=60)
    with pytest.raises(IndexError, match="has no rank 2"):
        hosts.replace(2, "tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match="is not an address"):
        hosts.replace(0, "nowhere")
    for reference in (hosts.slice(hosts=0), this_host()):
        with pytest.raises(RuntimeError, match="it is a reference"):
            reference.replace(0, "tcp://127.0.0.1:1")
    hosts.stop().get(timeout=60)
    with pytest.raises(RuntimeError, match="already been stopped"):
        hosts.replace(0, "tcp://127.0.0.1:1")


def test_a_host_that_cannot_be_attached_leaves_the_place_to_the_next(
    start_host: Start, attach: Attach, faults: list[MeshFailure]
) -> None:
    programs = [start_host(), start_host()]
    hosts = attach([program.address for program in programs])
    procs, placed = _spawned(hosts)
    _lost(programs, hosts, placed, 1)
    unused = programs[1].address
    with pytest.raises(RuntimeError, match=rf"cannot put the host {unused} in the place of .*nobody listens"):
        hosts.replace(1, unused, patience_s=0.0).get(timeout=60)
    hosts.replace(1, start_host().address).get(timeout=60)
    procs.respawn().get(timeout=60)
    placed.respawn().get(timeout=60)
    assert placed.where.call().get(timeout=60).extent.sizes == (2, 2)
