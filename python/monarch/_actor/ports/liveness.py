"""A receiver learns that all who could send to it are gone."""

from __future__ import annotations

from monarch import _native
from monarch._actor.actor_mesh import ActorMesh
from monarch._actor.context import sender
from monarch._actor.descriptors import UNWATCH, WATCH
from monarch._actor.errors import SupervisionError
from monarch._actor.mesh_root import Subject
from monarch._actor.ports.receiver import Receiver
from monarch._actor.supervision import error_of_death
from monarch._actor.wakeups import callback_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch._actor.ports.port import ChannelPort


def end_with(senders: ActorMesh, port: ChannelPort[Any]) -> Callable[[], object]:
    """End the channel of `port` once all `senders` are gone; returns what calls that off.

    Each actor is asked something that it never answers, so its end does.
    """
    if not isinstance(senders, ActorMesh):
        raise TypeError(f"senders is {senders!r}: it has to be the actor mesh that sends to the port")
    root, region, targets = senders._root, senders._region, senders._addressed()
    me, watch = sender(), _native.new_id()
    replies = targets.call(me, WATCH, watch, fail_fast=False)
    subject = Subject(Receiver.label, region.extent, root)

    def all_are_gone() -> None:
        gone = [replies.message(index) for index in range(replies.arrived)]
        if all(message.status == _native.STATUS_DEAD for message in gone):
            last = error_of_death(subject, gone[-1])
            port.end(
                SupervisionError(
                    f"all senders of a channel are gone, actors {root.name!r}: {last}", failure=last.failure
                )
            )

    callback_thread().when_ready(replies, len(targets), all_are_gone)
    return lambda: targets.cast(me, UNWATCH, watch)
