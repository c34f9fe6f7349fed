"""Large values between hosts: whole, in order and their receiver's own. Memory is shared within a host only."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from conftest import eventually
from host_programs import HostProgram
from monarch.actor import Channel, HostMesh, MeshFailure, SupervisionError, this_host
from monarch.config import configured
from payload_actors import LARGE_BYTES, Keeper, forget_other_tests, slots_taken

Start = Callable[..., HostProgram]
Attach = Callable[..., HostMesh]
WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def what_was_lent_comes_back() -> Iterator[None]:
    forget_other_tests()
    yield
    eventually(lambda: slots_taken() == 0, "the return of all slots")


@pytest.fixture
def near() -> Iterator[Any]:
    """An actor in another process of the client's host."""
    procs = this_host().spawn_procs(name="near")
    yield procs.spawn("near", Keeper)
    procs.stop().get(timeout=WITHIN_S)


def large(value: int = 1) -> np.ndarray[Any, Any]:
    return np.full(LARGE_BYTES, value, np.uint8).astype(np.int64)


def test_large_values_come_back_from_another_host_as_they_were(attach: Attach) -> None:
    away: Any = attach(1).spawn_procs().spawn("away", Keeper).slice(hosts=0)
    blob = bytes(range(256)) * (LARGE_BYTES // 256)
    sent = {"blob": blob, "again": blob, "mutable": bytearray(blob), "array": large(), "column": large()[::3]}
    received = away.echo.call_one(sent).get(timeout=WITHIN_S)
    for name, value in sent.items():
        assert type(received[name]) is type(value)
        np.testing.assert_array_equal(received[name], value)
    assert received["blob"] is received["again"]
    received["array"] += 1
    assert int(received["array"].sum()) == 2 * LARGE_BYTES


def test_memory_is_not_lent_to_another_host(attach: Attach) -> None:
    away: Any = attach(1).spawn_procs().spawn("away", Keeper).slice(hosts=0)
    away.keep.call_one(large()).get(timeout=WITHIN_S)
    shown = away.show.call_one().get(timeout=WITHIN_S)
    # Both sides still have what they were sent.
    eventually(lambda: slots_taken() == 0, "the return of the client's slot")
    eventually(lambda: away.slots_taken.call_one().get(timeout=WITHIN_S) == 0, "the return of the actor's slot")
    shown += 1
    assert away.sums.call_one().get(timeout=WITHIN_S) == [LARGE_BYTES]


def test_every_process_of_several_hosts_has_an_array_of_its_own(attach: Attach) -> None:
    away: Any = attach(2).spawn_procs({"gpu": 2}).spawn("away", Keeper)
    array = large()
    away.keep.call(array).get(timeout=WITHIN_S)
    for rank in range(4):
        away.slice(hosts=rank // 2, gpu=rank % 2).add_to_kept.call_one(rank).get(timeout=WITHIN_S)
    sums = [sums for _, sums in away.sums.call().get(timeout=WITHIN_S).items()]
    assert sums == [[LARGE_BYTES * (1 + rank)] for rank in range(4)]
    assert int(array.sum()) == LARGE_BYTES


def test_an_array_goes_on_from_one_host_to_the_next(attach: Attach, near: Any) -> None:
    away: Any = attach(2).spawn_procs().spawn("away", Keeper)
    first, second = away.slice(hosts=0), away.slice(hosts=1)
    for sender, receiver in ((near, first), (first, second), (second, near)):
        # Lent to the sender where that is on the client's host, and handed on by it.
        assert sender.pass_on.call_one(receiver, large()).get(timeout=WITHIN_S) == [LARGE_BYTES]
    assert first.slots_taken.call_one().get(timeout=WITHIN_S) == 0


def test_actors_of_one_attached_host_share_memory(attach: Attach) -> None:
    away: Any = attach(1).spawn_procs({"gpu": 2}).spawn("away", Keeper)
    one, other = away.slice(hosts=0, gpu=0), away.slice(hosts=0, gpu=1)
    assert one.pass_on.call_one(other, large()).get(timeout=WITHIN_S) == [LARGE_BYTES]
    assert one.slots_taken.call_one().get(timeout=WITHIN_S) == 1
    other.drop.call_one().get(timeout=WITHIN_S)
    eventually(lambda: one.slots_taken.call_one().get(timeout=WITHIN_S) == 0, "the return of the slot")


def test_large_and_small_values_arrive_in_the_order_in_which_they_were_sent(attach: Attach, near: Any) -> None:
    away: Any = attach(2).spawn_procs().spawn("away", Keeper)
    first, second = away.slice(hosts=0), away.slice(hosts=1)
    sizes = [3, LARGE_BYTES, 5, 100_000, 7, 8] * 3
    for sender, receiver in ((near, first), (first, near), (first, second)):
        sums = sender.tell.call_one(receiver, sizes).get(timeout=WITHIN_S)
        assert sums == sizes
        receiver.drop.call_one().get(timeout=WITHIN_S)


def test_large_values_come_through_a_port_from_another_host(attach: Attach) -> None:
    away: Any = attach(1).spawn_procs().spawn("away", Keeper).slice(hosts=0)
    port, receiver = Channel[Any].open()
    away.send_to.broadcast(port, large(3))
    received = receiver.recv().get(timeout=WITHIN_S)
    received += 1
    assert int(received.sum()) == 4 * LARGE_BYTES


@pytest.mark.parametrize("what", ["worker", "host"])
def test_what_was_on_its_way_to_what_is_killed_takes_no_memory(
    what: str, attach: Attach, start_host: Start, faults: list[MeshFailure]
) -> None:
    program = start_host()
    away: Any = attach([program.address]).spawn_procs().spawn("away", Keeper).slice(hosts=0)
    pid = away.pid.call_one().get(timeout=WITHIN_S)
    # Nobody takes anything from the connection any more, so some of it stays with the client.
    stopped = program.process.pid if what == "host" else pid
    os.kill(stopped, signal.SIGSTOP)
    with configured(send_window_bytes=20 * large().nbytes):  # so that no send waits for what is stopped
        calls = [away.keep.call_one(large()) for _ in range(10)]
    os.kill(stopped, signal.SIGKILL)
    for call in calls:
        with pytest.raises(SupervisionError):
            call.get(timeout=WITHIN_S)
    eventually(lambda: slots_taken() == 0, "the return of all slots")
    eventually(lambda: faults, "the owner is told")


@pytest.mark.torch
@pytest.mark.timeout(400)
def test_tensors_cross_hosts_and_are_their_receivers_own(attach: Attach) -> None:
    import torch

    away: Any = attach(1).spawn_procs().spawn("away", Keeper).slice(hosts=0)
    sent = torch.ones(LARGE_BYTES, dtype=torch.bfloat16, requires_grad=True)
    away.keep.call_one(sent.detach()).get(timeout=300)  # there, too, PyTorch has to be imported
    shown = away.show.call_one().get(timeout=WITHIN_S)
    away.add_to_kept.call_one(1).get(timeout=WITHIN_S)
    shown += 2
    again = away.show.call_one().get(timeout=WITHIN_S)
    assert [(tensor.dtype, int(tensor[-1])) for tensor in (sent, shown, again)] == [
        (torch.bfloat16, last) for last in (1, 3, 2)
    ]
    assert away.echo.call_one(sent).get(timeout=WITHIN_S).requires_grad
