"""Messages that nobody waits for and that are not delivered."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from conftest import eventually
from monarch._actor.context import process
from monarch._rust_bindings.monarch_hyperactor.mailbox import PortId, PortRef, UndeliverableMessageEnvelope
from monarch.actor import Actor, Channel, MeshFailure, Port, ProcMesh, SupervisionError, context, endpoint

WITHIN_S = 20.0

Faults = list[MeshFailure]


class Target(Actor):
    def __init__(self) -> None:
        self.seen: list[int] = []

    @endpoint
    def note(self, value: int) -> None:
        self.seen.append(value)

    @endpoint
    def noted(self) -> list[int]:
        return self.seen

    @endpoint
    def fail(self) -> None:
        raise ValueError("on purpose")

    @endpoint
    def die(self) -> None:
        raise SystemExit(1)


class Deaf(Actor):
    """Sends, and does not want to hear of what is lost."""

    @endpoint
    def cast(self, targets: Target, values: list[int]) -> None:
        for value in values:
            targets.note.broadcast(value)

    @endpoint
    def cast_fail(self, targets: Target) -> None:
        targets.fail.broadcast()

    @endpoint
    def send(self, port: Port[int], return_undeliverable: bool = True) -> None:
        port.return_undeliverable = return_undeliverable
        port.send(7)

    @endpoint
    def me(self) -> str:
        return str(context().actor_instance.actor_id)


class Hears(Deaf):
    def __init__(self, handles: bool = True) -> None:
        self.handles = handles
        self.lost: list[tuple[str, PortId, str]] = []

    def _handle_undeliverable_message(self, envelope: UndeliverableMessageEnvelope) -> bool:
        self.lost.append((str(envelope.sender()), envelope.dest(), envelope.error_msg()))
        assert context().actor_instance.name == "hears"
        return self.handles

    @endpoint
    def heard(self) -> list[tuple[str, PortId, str]]:
        return self.lost


class HearsAsync(Hears):
    async def _handle_undeliverable_message(  # type: ignore[override]
        self, envelope: UndeliverableMessageEnvelope
    ) -> bool:
        return super()._handle_undeliverable_message(envelope)


@pytest.fixture
def targets(grid: ProcMesh, faults: Faults) -> Target:
    """Two actors, of which the first is dead."""
    targets = grid.slice(row=0).spawn("targets", Target)
    with pytest.raises(SupervisionError):
        targets.slice(col=0).die.call_one().get(timeout=WITHIN_S)
    return targets


def heard(hears: Hears, count: int) -> list[tuple[str, PortId, str]]:
    eventually(lambda: len(hears.heard.call_one().get(timeout=WITHIN_S)) >= count, f"{count} messages came back")
    lost = hears.heard.call_one().get(timeout=WITHIN_S)
    assert len(lost) == count
    return lost


def arrives(target: Target, values: list[int]) -> None:
    """What one actor sends to another comes in no order with what the program sends."""
    eventually(lambda: target.noted.call_one().get(timeout=WITHIN_S) == values, f"{values} arrive")


@pytest.mark.parametrize("kind", [Hears, HearsAsync])
def test_who_wants_to_hears_of_each_dead_actor_and_the_living_get_the_message(
    grid: ProcMesh, targets: Target, kind: type[Hears]
) -> None:
    hears = grid.slice(row=1, col=1).spawn("hears", kind)
    hears.cast.call_one(targets, [1, 2]).get(timeout=WITHIN_S)
    for sender, dest, error in heard(hears, 2):
        assert sender == hears.me.call_one().get(timeout=WITHIN_S)
        assert (dest.actor_id.label, dest.actor_id.proc_label) == ("targets", "grid-0")
        assert PortId.from_string(str(dest)) == dest
        assert "SystemExit" in error
    arrives(targets.slice(col=1), [1, 2])


def test_who_does_not_want_to_lives_on(grid: ProcMesh, targets: Target) -> None:
    deaf = grid.slice(row=1, col=1).spawn("deaf", Deaf)
    deaf.cast.call_one(targets, [1]).get(timeout=WITHIN_S)
    arrives(targets.slice(col=1), [1])
    assert deaf.me.call_one().get(timeout=WITHIN_S)


def test_a_dead_process_gets_nothing(spawn_procs: Callable[..., ProcMesh], one: ProcMesh, faults: Faults) -> None:
    procs = spawn_procs()
    target, hears = procs.spawn("target", Target), one.spawn("hears", Hears)
    hears.cast.call_one(target, [1]).get(timeout=WITHIN_S)
    arrives(target, [1])
    process().runtime.kill_proc(procs._root.mesh, 0, 9)
    with pytest.raises(SupervisionError):
        while True:
            target.noted.call_one().get(timeout=WITHIN_S)
    hears.cast.call_one(target, [2]).get(timeout=WITHIN_S)
    (_, dest, error), *_ = heard(hears, 1)
    assert dest.actor_id.label == "target" and "SIGKILL" in error
    eventually(lambda: faults, "the program is told")


def test_an_exception_in_a_message_that_was_delivered_is_the_receivers(
    one: ProcMesh, grid: ProcMesh, faults: Faults
) -> None:
    target, hears = one.spawn("target", Target), grid.slice(row=1, col=1).spawn("hears", Hears)
    hears.cast_fail.call_one(target).get(timeout=WITHIN_S)
    eventually(lambda: [fault.name for fault in faults] == ["target"], "the receiver fails, as under any broadcast")
    assert heard(hears, 0) == []


def test_who_does_not_handle_a_lost_message_fails(grid: ProcMesh, targets: Target, faults: Faults) -> None:
    hears = grid.slice(row=1, col=1).spawn("hears", Hears, False)
    hears.cast.call_one(targets, [1]).get(timeout=WITHIN_S)
    eventually(lambda: [fault for fault in faults if fault.name == "hears"], "the owner is told")
    (failure,) = [fault for fault in faults if fault.name == "hears"]
    assert failure.kind == "undeliverable"
    assert "did not handle an undeliverable message to targets<" in failure.report()


def test_a_message_to_a_receiver_that_is_gone_comes_back_unless_its_port_says_not(grid: ProcMesh) -> None:
    hears = grid.slice(row=1, col=1).spawn("hears", Hears)
    port, receiver = Channel[int].open()
    hears.send.call_one(port).get(timeout=WITHIN_S)
    assert receiver.recv().get(timeout=WITHIN_S) == 7
    del receiver
    gc.collect()
    hears.send.call_one(port, False).get(timeout=WITHIN_S)
    hears.send.call_one(port).get(timeout=WITHIN_S)
    ((_, dest, _),) = heard(hears, 1)
    assert dest == port._port_ref.port_id  # type: ignore[attr-defined]


def test_a_port_ref_sends_to_its_channel() -> None:
    port, receiver = Channel[Any].open()
    reference: PortRef = port._port_ref  # type: ignore[attr-defined]
    assert reference.return_undeliverable
    reference.send(context().actor_instance, [1])
    assert receiver.recv().get(timeout=WITHIN_S) == [1]
