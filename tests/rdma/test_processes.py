"""One-sided memory between real processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from monarch._native import build_info
from monarch.actor import Channel, ProcMesh
from monarch.rdma import RDMABuffer, RDMABufferGone, RDMAPeerLost, RDMAReadOnly
from rdma_actors import Holder, Reader

pytestmark = pytest.mark.skipif(build_info()["platform"] != "linux", reason="only Linux copies between processes")

Spawn = Callable[..., ProcMesh]


def test_a_handle_serves_in_every_process_that_it_reaches(spawn_procs: Spawn) -> None:
    holder = spawn_procs(per_host={"gpus": 1}).spawn("holder", Holder)
    readers = spawn_procs(per_host={"gpus": 2}).spawn("reader", Reader)
    buffer = holder.make.call_one(b"0123456789").get()
    assert buffer.size() == 10 and "RDMABuffer(10 bytes of" in repr(buffer)
    assert list(readers.read.call(buffer).get().values()) == [b"0123456789"] * 2
    assert list(readers.read_async.call(buffer).get().values()) == [b"0123456789"] * 2
    readers.slice(gpus=0).write.call_one(buffer, b"abc", 2).get()
    buffer.write_from(b"XY", offset=8).get()
    assert holder.content.call_one().get() == b"01abc567XY"
    # The other way: memory of the program.
    owned = bytearray(b"of the program")
    with RDMABuffer(owned) as mine:
        assert readers.slice(gpus=1).read.call_one(mine).get() == b"of the program"
        readers.slice(gpus=1).write.call_one(mine, b"OF").get()
    assert owned == b"OF the program"


def test_the_owner_may_be_busy_meanwhile(spawn_procs: Spawn) -> None:
    holder = spawn_procs(per_host={"gpus": 1}).spawn("holder", Holder)
    buffer = holder.make.call_one(b"content").get()
    port, receiver = Channel[None].open()
    busy = holder.be_busy.call_one(port, 1.0)
    receiver.recv().get()
    local = bytearray(7)
    buffer.read_into(local).get()
    assert local == b"content" and not busy.done()
    busy.get()


def test_a_drop_reaches_all_processes_from_any(spawn_procs: Spawn) -> None:
    holder = spawn_procs(per_host={"gpus": 1}).spawn("holder", Holder)
    reader = spawn_procs(per_host={"gpus": 1}).spawn("reader", Reader)
    buffer = holder.make.call_one(b"content").get()
    assert holder.live.call_one().get() == 1
    reader.drop.call_one(buffer).get()
    with pytest.raises(RDMABufferGone, match="buffer not found"):
        buffer.read_into(bytearray(7)).get()
    assert holder.live.call_one().get() == 0
    protected = holder.make.call_one(b"content", True).get()
    with pytest.raises(RDMAReadOnly):
        protected.drop().get()
    protected.read_into(bytearray(7)).get()


def test_an_owner_that_is_killed_is_named_to_who_reads(spawn_procs: Spawn, faults: Any) -> None:
    holder = spawn_procs(per_host={"gpus": 1}).spawn("holder", Holder)
    buffer = holder.make_large.call_one(32 << 20).get()
    pid = holder.pid.call_one().get()
    local = bytearray(32 << 20)
    buffer.read_into(local).get()
    moving = buffer.read_into(local)
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    with pytest.raises(ConnectionError, match=rf"\(pid {pid}\), the owner of the buffer, has ended") as caught:
        while True:
            moving.get()
            moving = buffer.read_into(local)
    assert time.monotonic() - killed < 1.0
    assert isinstance(caught.value, RDMAPeerLost) and buffer.owner in str(caught.value)
    faults.wait_for_more(10)
    assert len(faults) == 1
    with pytest.raises(RDMAPeerLost):
        buffer.write_from(b"x").get()
    buffer.drop().get()


def test_a_reader_that_is_killed_in_the_middle_keeps_nobody_from_the_memory(spawn_procs: Spawn, faults: Any) -> None:
    reader = spawn_procs(per_host={"gpus": 1}).spawn("reader", Reader)
    pid = reader.pid.call_one().get()
    owned = bytearray(16 << 20)
    buffer = RDMABuffer(owned)
    port, receiver = Channel[None].open()
    running = reader.read_for_ever.call_one(buffer, port)
    receiver.recv().get()
    os.kill(pid, signal.SIGKILL)
    assert running.exception() is not None
    faults.wait_for_more(10)
    assert len(faults) == 1
    began = time.monotonic()
    buffer.drop().get()
    assert time.monotonic() - began < 1.0
    owned.append(1)  # nobody exports its memory any more


def test_a_drop_under_a_reader_ends_its_reads(spawn_procs: Spawn) -> None:
    reader = spawn_procs(per_host={"gpus": 1}).spawn("reader", Reader)
    owned = bytearray(32 << 20)
    buffer = RDMABuffer(owned)
    port, receiver = Channel[None].open()
    running = reader.read_for_ever.call_one(buffer, port)
    receiver.recv().get()
    buffer.drop().get()
    owned.append(1)
    running.get()


def blocks_come_and_go(spawn_procs: Spawn, rounds: int) -> None:
    holder = spawn_procs(per_host={"gpus": 1}).spawn("holder", Holder)
    port, receiver = Channel[tuple[RDMABuffer, int]].open()
    running = holder.come_and_go.call_one(rounds, port)
    local = bytearray(65536)
    moved = 0
    for _ in range(rounds):
        buffer, mark = receiver.recv().get()
        try:
            buffer.read_into(local).get()
        except RDMABufferGone:
            continue
        moved += 1
        assert local == bytes([mark]) * 65536
    running.get()
    assert moved > 0


def test_no_reader_sees_a_block_that_was_dropped(spawn_procs: Spawn) -> None:
    blocks_come_and_go(spawn_procs, 1_000)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_reader_sees_a_block_that_was_dropped_in_many_rounds(spawn_procs: Spawn) -> None:
    blocks_come_and_go(spawn_procs, 200_000)


def test_the_example_of_a_parameter_server_checks_its_values(run_program: Callable[..., Any]) -> None:
    done = run_program(str(Path(__file__).parents[2] / "examples" / "parameter_server.py"), "2")
    assert done.returncode == 0, done.stderr
    assert "step 4: the workers saw 12.0, the server has 15.0" in done.stdout


FORKS = """
import os, pickle
from monarch.rdma import RDMABuffer

sent, kept = RDMABuffer(bytearray(b"sent")), RDMABuffer(bytearray(b"kept"))
copy = pickle.loads(pickle.dumps(sent))
child = os.fork()
if child == 0:
    sent.drop()
    kept.drop()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
local = bytearray(4)
copy.read_into(local).get()
print(local.decode())
kept.read_into(local).get()
print(local.decode())
"""


def test_a_forked_child_ends_no_registration_of_its_parent(run_program: Callable[..., Any]) -> None:
    done = run_program("-c", FORKS)
    assert (done.stdout.split(), done.returncode) == (["sent", "kept"], 0), done.stderr
