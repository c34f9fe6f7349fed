"""Messages that nobody waits for and that could not be delivered: whoever sent them may hear of it.

Only actors that define `_handle_undeliverable_message` do. What they broadcast, and send to ports, asks to be confirmed
by whoever takes it; what is answered with a death instead was not delivered.
"""

from __future__ import annotations

from monarch import _native
from monarch._actor.descriptors import confirmed_descriptor
from monarch._actor.identity import ActorAddr, ProcId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Buffer

    from monarch._actor.context import Instance
    from monarch._actor.endpoint import Endpoint


class PortId:
    """Where a message was to arrive: an actor, and which of its ports. Ports of channels have their own number."""

    __slots__ = ("actor_id", "index")

    def __init__(self, actor_id: ActorAddr, index: int) -> None:
        self.actor_id = actor_id
        self.index = index

    @staticmethod
    def from_string(port_id: str) -> PortId:
        """What `str` printed; raises `ValueError` for anything else."""
        actor_id, colon, index = port_id.rpartition(":")
        if not colon or not index.isdecimal():
            raise ValueError(f"{port_id!r} is no port: expected `actor:index`")
        return PortId(ActorAddr.from_string(actor_id), int(index))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PortId):
            return NotImplemented
        return (self.actor_id, self.index) == (other.actor_id, other.index)

    def __hash__(self) -> int:
        return hash((self.actor_id, self.index))

    def __str__(self) -> str:
        return f"{self.actor_id}:{self.index}"

    def __repr__(self) -> str:
        return f"PortId({str(self)!r})"

    def __reduce__(self) -> tuple[type[PortId], tuple[ActorAddr, int]]:
        return PortId, (self.actor_id, self.index)


class UndeliverableMessageEnvelope:
    """A message that came back: who sent it, where it was to arrive, and why it did not."""

    __slots__ = ("_dest", "_error", "_sender")

    def __init__(self, sender: ActorAddr, dest: PortId, error: str) -> None:
        self._sender = sender
        self._dest = dest
        self._error = error

    def sender(self) -> ActorAddr:
        return self._sender

    def dest(self) -> PortId:
        return self._dest

    def error_msg(self) -> str:
        return self._error

    def report(self) -> str:
        return f"undeliverable message to {self._dest}: {self._error}"

    def __repr__(self) -> str:
        return f"<UndeliverableMessageEnvelope from {self._sender} to {self._dest}: {self._error}>"


def broadcast(instance: Instance, endpoint: Endpoint[..., Any], payload: bytes, buffers: Sequence[Buffer]) -> None:
    """As a cast of the endpoint's message, by an actor that wants to hear of those who do not get it."""
    from monarch._actor.supervision import error_of_death

    descriptor = confirmed_descriptor(endpoint._name, endpoint.extent)
    replies = endpoint._targets.call(instance.actor, descriptor, payload, buffers, fail_fast=False)
    procs, ranks = endpoint.root.procs._root, endpoint._region.ranks()

    def lost(message: _native.Message) -> None:
        place = ProcId(procs.mesh, ranks[message.rank], procs.name)
        dest = PortId(ActorAddr.of(endpoint.root.actor, endpoint.root.name, place), 0)
        _tell(instance, dest, str(error_of_death(endpoint, message)))

    _Confirmations(replies, lost).go_on()


def send_to_channel(
    instance: Instance, targets: _native.Targets, place: ProcId, channel: bytes, message: tuple[Any, ...]
) -> None:
    """As a cast to the receiver of a channel, by an actor that wants to hear of what nobody has received."""
    replies = targets.call(instance.actor, *message, fail_fast=False)

    def lost(answer: _native.Message) -> None:
        death = answer.death
        dest = PortId(ActorAddr.of(_native.PROCESS_ACTOR, "", place), int.from_bytes(channel, "big"))
        _tell(instance, dest, death.reason if death is not None else "nobody received it")

    _Confirmations(replies, lost).go_on()


def _tell(instance: Instance, dest: PortId, error: str) -> None:
    owner = instance._owner
    owner.failures.bounce(UndeliverableMessageEnvelope(instance.actor_id, dest, error))
    owner.told_of_failure()


class _Confirmations:
    """The confirmations of a message, looked at as they come."""

    def __init__(self, replies: _native.Replies, lost: Any) -> None:
        self._replies = replies
        self._lost = lost
        self._seen = 0

    def go_on(self) -> None:
        from monarch._actor.wakeups import callback_thread

        callback_thread().when_ready(self._replies, self._seen + 1, self._look)

    def _look(self) -> None:
        replies = self._replies
        for index in range(self._seen, replies.arrived):
            self._seen = index + 1
            message = replies.message(index)
            if message.status == _native.STATUS_DEAD:
                self._lost(message)
        if self._seen < replies.expected:
            self.go_on()
