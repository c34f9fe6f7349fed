"""Where the ports of this process's channels go: to the actors of a call, or nobody knows where.

A port that is pickled goes nobody knows where, unless whoever pickles it, for a call, says afterwards who gets it.
"""

from __future__ import annotations

from _thread import get_ident
from weakref import WeakValueDictionary, ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.actor_mesh import ActorMeshRoot
    from monarch._actor.ports.turns import Turns

# Channels that were opened here and have a receiver.
here: WeakValueDictionary[bytes, Turns] = WeakValueDictionary()

# Their ports that were pickled, by thread, until they are spoken for. Mostly empty, so that calls need only look.
pickled: dict[int, list[ref[Turns]]] = {}


def note(turns: Turns) -> None:
    """A port of this channel is pickled."""
    turns.escape(1)
    pickled.setdefault(get_ident(), []).append(ref(turns))


def forget() -> None:
    """What this thread has pickled before is not part of what it pickles from now on."""
    pickled.pop(get_ident(), None)


def carry(root: ActorMeshRoot, ranks: tuple[int, ...]) -> list[ref[Turns]]:
    """What this thread has pickled goes to these actors; returns the channels."""
    channels = pickled.pop(get_ident(), [])
    for channel in channels:
        turns = channel()
        if turns is not None:
            turns.escape(-1)
            turns.carry(root, ranks)
    return channels
