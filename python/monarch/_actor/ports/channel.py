"""`Channel`: a port and its receiver."""

from __future__ import annotations

from monarch import _native
from monarch._actor.actor_mesh import ActorMesh
from monarch._actor.context import process
from monarch._actor.generics import Generic, TypeVar
from monarch._actor.ports import passing
from monarch._actor.ports.port import ChannelPort
from monarch._actor.ports.receiver import PortReceiver, RankedPortReceiver, ReducedPortReceiver
from monarch._actor.ports.turns import Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from monarch._actor.ports.port import Port

R = TypeVar("R")
A = TypeVar("A")


class Channel(Generic[R]):
    """Opens channels: the port takes messages anywhere, the receiver hands them out here, for as long as it is held.

    `once`: for one message; further ones are dropped.
    """

    @staticmethod
    def open(once: bool = False, *, senders: ActorMesh | None = None) -> tuple[Port[R], PortReceiver[R]]:
        """A channel of values.

        Once all actors of `senders` are gone, or all that were sent the port in a call, and their messages have been
        received, `recv` raises `SupervisionError`.
        """
        port: ChannelPort[R]
        port, turns = _open(once)
        if senders is not None:
            if not isinstance(senders, ActorMesh):
                raise TypeError(f"senders is {senders!r}: it has to be the actor mesh that sends to the port")
            turns.give(senders._root, senders._region.ranks())
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
    passing.here[channel] = turns
    return ChannelPort(runtime.mesh, runtime.rank, channel, once), turns
