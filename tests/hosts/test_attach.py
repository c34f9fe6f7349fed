"""Hosts that were started by hand: attached, used, stopped and used again."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import is_alive
from host_actors import Placed
from host_programs import HostProgram
from monarch.actor import Channel, HostMesh, attach_to_workers, this_host

Start = Callable[..., HostProgram]
Attach = Callable[..., HostMesh]


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_hosts_by_name_ipv4_ipv6_and_local_socket_are_one_mesh(
    start_host: Start, attach: Attach, tmp_path: Path
) -> None:
    wanted = ["tcp://localhost:0", "tcp://127.0.0.1:0", f"ipc://{tmp_path}/host", f"ipc://@monarch-test-{os.getpid()}"]
    if _has_ipv6():
        wanted.append("tcp://[::1]:0")
    programs = [start_host(address) for address in wanted]
    hosts = attach([program.address for program in programs])
    placed = hosts.spawn_procs({"gpu": 2}, name="workers").spawn("placed", Placed)
    where = placed.where.call().get(timeout=60)
    assert dict(where.extent) == {"hosts": len(wanted), "gpu": 2}
    assert len({pid for _, (pid, _) in where.items()}) == 2 * len(wanted)
    assert all(rank == dict(point) for point, (_, rank) in where.items())
    on = placed.host_program.call().get(timeout=60)
    assert [pid for _, pid in on.items()] == [program.process.pid for program in programs for _ in range(2)]


def test_every_interface_is_listened_at_with_the_key(attach: Attach, start_host: Start) -> None:
    attach(1).initialized.get(timeout=60)  # the client has made the key
    program = start_host("tcp://*:0")
    port = program.address.rpartition(":")[2]
    placed = attach([f"tcp://127.0.0.1:{port}"]).spawn_procs().spawn("placed", Placed)
    assert placed.slice(hosts=0).host_program.call_one().get(timeout=60) == program.process.pid


def test_actors_of_different_hosts_call_each_other(attach: Attach) -> None:
    placed = attach(4).spawn_procs().spawn("placed", Placed)
    pids = [pid for _, (pid, _) in placed.where.call().get(timeout=60).items()]
    # One after the other: each serves nobody while it asks.
    asked = [placed.slice(hosts=i).ask.call_one(placed.slice(hosts=(i + 1) % 4)).get(timeout=60) for i in range(4)]
    assert asked == [*pids[1:], pids[0]]


def test_messages_between_hosts_arrive_in_order(attach: Attach) -> None:
    placed = attach(2).spawn_procs({"gpu": 2}).spawn("placed", Placed)
    receiver = placed.slice(hosts=1, gpu=1)
    placed.slice(hosts=0, gpu=0).tell.call_one(receiver, 1000).get(timeout=60)
    # Asked by the sender's way, so after all that it told.
    heard = receiver.all_heard.call_one().get(timeout=60)
    while len(heard) < 1000:
        heard = receiver.all_heard.call_one().get(timeout=60)
    assert heard == list(range(1000))


def test_the_client_and_workers_of_its_own_host_reach_attached_hosts(attach: Attach) -> None:
    away = attach(1).spawn_procs().spawn("away", Placed).slice(hosts=0)
    near = this_host().spawn_procs(name="near")
    here = near.spawn("near", Placed)
    assert here.ask.call_one(away).get(timeout=60) == away.where.call_one().get(timeout=60)[0]
    assert away.ask.call_one(here).get(timeout=60) == here.where.call_one().get(timeout=60)[0]
    near.stop().get(timeout=60)


def test_ports_reach_across_hosts(attach: Attach) -> None:
    placed = attach(2).spawn_procs({"gpu": 2}).spawn("placed", Placed)
    port, receiver = Channel.open()
    placed.send_rank.broadcast(port)
    assert sorted(receiver.recv().get(timeout=60) for _ in range(4)) == [0, 1, 2, 3]


def test_large_messages_cross_hosts_whole(attach: Attach) -> None:
    placed = attach(2).spawn_procs().spawn("placed", Placed)
    text = "x" * (20 << 20)
    assert placed.variable.call(text).get(timeout=60).extent.sizes == (2,)


def test_an_actor_spawns_on_its_own_and_on_other_hosts(attach: Attach, start_host: Start) -> None:
    hosts = attach(2)
    placed = hosts.spawn_procs().spawn("placed", Placed)
    first = placed.slice(hosts=0)
    pid, program = first.spawn_here.call_one().get(timeout=60)
    assert program == first.host_program.call_one().get(timeout=60)
    others = first.spawn_on.call_one(hosts, "others").get(timeout=60)
    assert len({pid, *others}) == 3
    elsewhere = first.spawn_on.call_one(this_host(), "home").get(timeout=60)
    assert is_alive(elsewhere[0])


def test_slices_of_hosts_are_hosts(attach: Attach) -> None:
    hosts = attach(4)
    half = hosts.slice(hosts=slice(2, 4))
    placed = half.spawn_procs({"gpu": 2}).spawn("placed", Placed)
    assert dict(placed.where.call().get(timeout=60).extent) == {"hosts": 2, "gpu": 2}
    programs = {pid for _, pid in placed.host_program.call().get(timeout=60).items()}
    assert len(programs) == 2
    own, of_proc = placed.slice(hosts=1, gpu=0).own_host.call_one().get(timeout=60)
    assert own == of_proc == hosts.slice(hosts=3)


def test_processes_of_a_host_have_its_directory_and_variables(
    start_host: Start, attach: Attach, tmp_path: Path
) -> None:
    program = start_host(MONARCH_TEST_HOST="there")
    placed = attach([program.address]).spawn_procs().spawn("placed", Placed).slice(hosts=0)
    assert placed.directory.call_one().get(timeout=60) == str(tmp_path)
    assert placed.variable.call_one("MONARCH_TEST_HOST").get(timeout=60) == "there"


def test_only_what_attached_hosts_can_stop_them(attach: Attach) -> None:
    hosts = attach(2)
    for reference in (hosts.slice(hosts=0), this_host()):
        with pytest.raises(RuntimeError, match="it is a reference"):
            reference.shutdown()
        with pytest.raises(RuntimeError, match="it is a reference"):
            reference.stop()


def test_stopped_hosts_refuse_further_use(attach: Attach) -> None:
    hosts = attach(1)
    procs = hosts.spawn_procs()
    placed = procs.spawn("placed", Placed)
    pid = placed.slice(hosts=0).where.call_one().get(timeout=60)[0]
    hosts.shutdown().get(timeout=60)
    assert not is_alive(pid)
    with pytest.raises(RuntimeError, match="already been shut down"):
        hosts.spawn_procs()
    with pytest.raises(RuntimeError, match="were shut down"):
        procs.spawn("again", Placed)


def test_async_with_shuts_hosts_down(start_host: Start) -> None:
    import asyncio

    program = start_host()

    async def use() -> None:
        async with attach_to_workers(ca="trust_all_connections", workers=[program.address]) as hosts:
            assert await hosts.initialized
        with pytest.raises(RuntimeError, match="already been shut down"):
            await hosts.__aenter__()

    asyncio.run(use())
    assert program.status() == 0
