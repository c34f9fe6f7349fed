"""A receiver learns that nobody is left who could send to it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from conftest import eventually
from monarch._actor.context import process
from monarch.actor import Actor, Channel, MeshFailure, Port, ProcMesh, SupervisionError, endpoint, this_proc

WITHIN_S = 20.0

# Longer than a receive waits before it watches its senders; nothing is asserted about how long anything takes.
A_WHILE_S = 0.3

Faults = list[MeshFailure]


class Holder(Actor):
    """Keeps a port, and sends when it is told to."""

    def __init__(self, port: Port[Any] | None = None) -> None:
        self.port = port

    @endpoint
    def take(self, port: Port[Any]) -> None:
        self.port = port

    @endpoint
    def take_list(self, ports: list[Port[Any]]) -> None:
        (self.port,) = ports

    @endpoint
    def take_and_die(self, port: Port[Any]) -> None:
        raise SystemExit(1)

    @endpoint
    def send(self, value: Any) -> None:
        assert self.port is not None
        self.port.send(value)

    @endpoint
    def pass_on(self, other: Holder) -> None:
        assert self.port is not None
        other.take.call_one(self.port).get(timeout=WITHIN_S)

    @endpoint
    def give_back(self) -> Port[Any]:
        assert self.port is not None
        return self.port

    @endpoint
    def die(self) -> None:
        raise SystemExit(1)


@pytest.fixture
def holders(grid: ProcMesh, faults: Faults) -> Holder:
    return grid.slice(row=0).spawn("holders", Holder)


def kill(holders: Holder) -> None:
    with pytest.raises(SupervisionError):
        holders.die.call().get(timeout=WITHIN_S)


@pytest.mark.parametrize("how", ["broadcast", "call", "keyword", "in a list", "stream", "with options"])
def test_who_got_the_port_in_a_call_and_is_gone_sends_no_more(holders: Holder, how: str) -> None:
    port, receiver = Channel[int].open()
    if how == "broadcast":
        holders.take.broadcast(port)
    elif how == "call":
        holders.take.call(port).get(timeout=WITHIN_S)
    elif how == "keyword":
        holders.take.call(port=port).get(timeout=WITHIN_S)
    elif how == "in a list":
        holders.take_list.call([port]).get(timeout=WITHIN_S)
    elif how == "stream":
        assert [answer.get(timeout=WITHIN_S) for answer in holders.take.stream(port)] == [None, None]
    else:
        holders.take.options(timeout=WITHIN_S).call(port).get(timeout=WITHIN_S)
    holders.send.call(1).get(timeout=WITHIN_S)
    kill(holders)
    assert [receiver.recv().get(timeout=WITHIN_S) for _ in range(2)] == [1, 1]
    for _ in range(2):
        with pytest.raises(SupervisionError, match="all senders of a channel are gone, actors 'holders'") as caught:
            receiver.recv().get(timeout=WITHIN_S)
        assert caught.value.failure is not None


def test_who_waits_already_is_told(holders: Holder) -> None:
    port, receiver = Channel[int].open()
    holders.take.call(port).get(timeout=WITHIN_S)
    waiting = receiver.recv()
    with pytest.raises(TimeoutError):
        waiting.get(timeout=A_WHILE_S)
    holders.die.broadcast()
    with pytest.raises(SupervisionError, match="holders"):
        waiting.get(timeout=WITHIN_S)


def test_an_event_loop_that_waits_is_told(holders: Holder) -> None:
    port, receiver = Channel[int].open()
    holders.take.call(port).get(timeout=WITHIN_S)

    async def wait() -> None:
        waiting = asyncio.ensure_future(receiver.recv().as_asyncio())
        await asyncio.sleep(0)
        holders.die.broadcast()
        await asyncio.wait_for(waiting, WITHIN_S)

    with pytest.raises(SupervisionError, match="holders"):
        asyncio.run(wait())


def test_who_only_polls_is_told(holders: Holder) -> None:
    port, receiver = Channel[int].open()
    holders.take.call(port).get(timeout=WITHIN_S)
    kill(holders)

    def is_told() -> bool:
        try:
            receiver.recv().get(timeout=0)
        except TimeoutError:
            return False
        except SupervisionError:
            return True
        raise AssertionError("nobody has sent anything")

    eventually(is_told, "a poll raises")


def test_one_of_several_that_lives_keeps_the_channel_alive(grid: ProcMesh, holders: Holder) -> None:
    port, receiver = Channel[int].open()
    other = grid.slice(row=1, col=0).spawn("other", Holder)
    holders.take.call(port).get(timeout=WITHIN_S)
    other.take.call_one(port).get(timeout=WITHIN_S)
    kill(holders)
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=A_WHILE_S)
    other.send.call_one(7).get(timeout=WITHIN_S)
    assert receiver.recv().get(timeout=WITHIN_S) == 7
    kill(other)
    with pytest.raises(SupervisionError, match="actors 'holders', 'other'"):
        receiver.recv().get(timeout=WITHIN_S)


def test_who_was_chosen_counts_alone(grid: ProcMesh, faults: Faults) -> None:
    holders = grid.spawn("chosen", Holder)
    port, receiver = Channel[int].open()
    with pytest.raises(SupervisionError):
        holders.take_and_die.choose(port).get(timeout=WITHIN_S)
    with pytest.raises(SupervisionError, match="all senders of a channel are gone"):
        receiver.recv().get(timeout=WITHIN_S)


def test_a_port_that_was_passed_on_keeps_its_channel_alive(grid: ProcMesh, holders: Holder) -> None:
    port, receiver = Channel[int].open()
    first, other = holders.slice(col=0), grid.slice(row=1, col=0).spawn("other", Holder)
    first.take.call_one(port).get(timeout=WITHIN_S)
    first.pass_on.call_one(other).get(timeout=WITHIN_S)
    kill(first)
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=A_WHILE_S)
    other.send.call_one(7).get(timeout=WITHIN_S)
    assert receiver.recv().get(timeout=WITHIN_S) == 7


def test_a_port_that_came_back_in_a_result_keeps_its_channel_alive(holders: Holder) -> None:
    port, receiver = Channel[int].open()
    first = holders.slice(col=0)
    first.take.call_one(port).get(timeout=WITHIN_S)
    returned = first.give_back.call_one().get(timeout=WITHIN_S)
    kill(first)
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=A_WHILE_S)
    returned.send(7)
    assert receiver.recv().get(timeout=WITHIN_S) == 7


def test_another_call_with_the_port_brings_a_channel_back(grid: ProcMesh, holders: Holder) -> None:
    port, receiver = Channel[int].open()
    holders.take.call(port).get(timeout=WITHIN_S)
    kill(holders)
    with pytest.raises(SupervisionError):
        receiver.recv().get(timeout=WITHIN_S)
    other = grid.slice(row=1, col=0).spawn("other", Holder)
    other.take.call_one(port).get(timeout=WITHIN_S)
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=A_WHILE_S)
    other.send.call_one(7).get(timeout=WITHIN_S)
    assert receiver.recv().get(timeout=WITHIN_S) == 7
    kill(other)
    with pytest.raises(SupervisionError):
        receiver.recv().get(timeout=WITHIN_S)


def test_a_port_that_a_constructor_got_lives_and_comes_back_with_its_actors(grid: ProcMesh, faults: Faults) -> None:
    port, receiver = Channel[int].open()
    made = grid.slice(row=1).spawn("made", Holder, port)
    made.send.call(1).get(timeout=WITHIN_S)
    kill(made)
    assert [receiver.recv().get(timeout=WITHIN_S) for _ in range(2)] == [1, 1]
    with pytest.raises(SupervisionError, match="made"):
        receiver.recv().get(timeout=WITHIN_S)
    made.respawn().get(timeout=WITHIN_S)
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=A_WHILE_S)
    made.send.call(2).get(timeout=WITHIN_S)
    assert [receiver.recv().get(timeout=WITHIN_S) for _ in range(2)] == [2, 2]


def test_a_process_that_dies_takes_its_senders_along(spawn_procs: Callable[..., ProcMesh], faults: Faults) -> None:
    procs = spawn_procs()
    holder = procs.spawn("holder", Holder)
    port, receiver = Channel[int].open()
    holder.take.call_one(port).get(timeout=WITHIN_S)
    process().runtime.kill_proc(procs._root.mesh, 0, 9)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        receiver.recv().get(timeout=WITHIN_S)
    eventually(lambda: faults, "the program is told")


def test_actors_forget_receivers_that_are_gone() -> None:
    holder: Any = this_proc().spawn("holder", Holder)
    local = process().actors[holder._root.actor] if holder.initialized.get(timeout=WITHIN_S) is None else None
    assert local is not None
    port, receiver = Channel[int].open()
    holder.take.call_one(port).get(timeout=WITHIN_S)
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=A_WHILE_S)
    eventually(lambda: local._watches, "the actor is watched")
    del receiver
    gc.collect()
    eventually(lambda: not local._watches, "nobody watches the actor any more")
    holder.stop().get(timeout=WITHIN_S)
