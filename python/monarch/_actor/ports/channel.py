"""`Channel`: a port and its receiver."""

from __future__ import annotations

from monarch import _native
from monarch._actor.context import process
from monarch._actor.generics import Generic, TypeVar
from monarch._actor.ports.port import ChannelPort
from monarch._actor.ports.receiver import PortReceiver, RankedPortReceiver, ReducedPortReceiver
from monarch._actor.ports.turns import Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from monarch._actor.actor_mesh import ActorMesh
    from monarch._actor.ports.port import Port

R = TypeVar("R")
A = TypeVar("A")


class Channel(Generic[R]):
    """Opens channels: the port takes messages anywhere, the receiver hands them out here, for as long as it is held.

    `once`: for one message; further ones are dropped.
    """

    @staticmethod
    def open(once: bool = False, *, senders: ActorMesh | None = None) -> tuple[Port[R], PortReceiver[R]]:
        """A channel of values. Once all actors of `senders` are gone and their messages received, `recv` raises
        `SupervisionError`."""
        port: ChannelPort[R]
        port, turns = _open(once)
        if senders is not None:
            from monarch._actor.ports.liveness import end_with

            turns.on_close = end_with(senders, port)
        return port, PortReceiver(turns)

    @staticmethod
    def open_ranked(once: bool = False) -> tuple[Port[R], RankedPortReceiver[R]]:
        """A channel for the answers of endpoints (`send(…, port=port)`), which are received with their ranks."""
        port: ChannelPort[R]
        port, turns = _open(once)
        return port, RankedPortReceiver(turns)

    @staticmethod
    def open_reduced(combine: Callable[[A, R], A], identity: A) -> tuple[Port[R], ReducedPortReceiver[A]]:
        """A channel that folds: a `recv` waits for a message, and gives `combine(combine(identity, a), b)…` of all
        that are there. Each message is part of one result; `identity` must not be mutated."""
        port: ChannelPort[R]
        port, turns = _open(once=False, batches=True)
        return port, ReducedPortReceiver(turns, combine, identity)


def _open(once: bool, batches: bool = False) -> tuple[ChannelPort[R], Turns]:
    runtime = process().runtime
    channel = _native.new_id()
    turns = Turns(runtime.mailbox(channel), channel, once, batches)
    return ChannelPort(runtime.mesh, runtime.rank, channel, once), turns
