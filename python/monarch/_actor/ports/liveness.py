"""A receiver learns that all who could send to it are gone.

Those are the actors that its channel was opened for (`senders=`), or else those that were sent the port in a call or
in their constructor's arguments. Each is asked something that it never answers, so its end does. Nobody is asked before
a receive has waited for a while: most messages come soon, and then this costs nothing.

Once a port goes elsewhere (in a result, through another port, from an actor to another), nobody knows any more who may
send: then the receiver waits for as long as it is asked to.
"""

from __future__ import annotations

from monarch import _native
from monarch._actor.context import process, sender
from monarch._actor.descriptors import UNWATCH, WATCH
from monarch._actor.errors import SupervisionError
from monarch._actor.mesh_root import Subject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from monarch._actor.actor_mesh import ActorMeshRoot

# How long a receive waits before the senders are watched.
PATIENCE_S = 0.1


class Liveness:
    """What is known of those who may send to one channel. Guarded by the lock of its `Turns`."""

    __slots__ = ("_escapes", "_given", "_watches", "unwatched")

    def __init__(self) -> None:
        self._watches: dict[object, Watch] = {}
        self._escapes = 0  # how often the port went nobody knows where
        self._given = False
        self.unwatched = False  # somebody may send who is not watched yet

    def give(self, root: ActorMeshRoot, ranks: tuple[int, ...]) -> None:
        """Only these will send, whatever becomes of the port."""
        self._given = True
        self._add(root, ranks)

    def carry(self, root: ActorMeshRoot, ranks: tuple[int, ...]) -> None:
        """The port goes to these actors."""
        if not self._given:
            self._add(root, ranks)

    def escape(self, times: int) -> None:
        """The port goes nobody knows where; a negative number takes that back."""
        self._escapes += times

    def _add(self, root: ActorMeshRoot, ranks: tuple[int, ...]) -> None:
        known = self._watches.get((root.actor, ranks))
        if known is None or known.is_old:
            self._watches[root.actor, ranks] = Watch(root, ranks)
            self.unwatched = True

    def to_watch(self) -> list[Watch]:
        """Those that may send and are not watched yet; it is the caller's to begin."""
        if not self.unwatched:
            return []
        self.unwatched = False
        return list(self._watches.values())

    def all_gone(self) -> bool:
        """Whether nobody is left who could send."""
        if not self._watches or (self._escapes and not self._given):
            return False
        return all(watch.is_over for watch in self._watches.values())

    def error(self) -> SupervisionError:
        """What `recv` raises then."""
        last = [watch.error() for watch in self._watches.values()][-1]
        names = ", ".join(sorted({repr(watch.root.name) for watch in self._watches.values()}))
        return SupervisionError(f"all senders of a channel are gone, actors {names}: {last}", failure=last.failure)

    def close(self) -> None:
        """Nobody wants to know any more."""
        for watch in self._watches.values():
            watch.call_off()


class Watch:
    """The lives of some actors of a mesh, given by the ranks of their processes."""

    __slots__ = ("_me", "_ranks", "_replies", "_targets", "_token", "root")

    def __init__(self, root: ActorMeshRoot, ranks: tuple[int, ...]) -> None:
        self.root = root
        self._ranks = ranks
        self._me = sender()
        self._token = _native.new_id()
        self._targets: _native.Targets | None = None
        self._replies: _native.Replies | None = None

    def begin(self, when_over: Callable[[], object]) -> None:
        """Call `when_over` once all of them are gone."""
        if self._replies is not None:
            return
        from monarch._actor.wakeups import callback_thread

        mesh = self.root.procs._root.mesh
        self._targets = _native.Targets(process().runtime, mesh, self._ranks, self.root.actor)
        self._replies = self._targets.call(self._me, WATCH, self._token, fail_fast=False)
        callback_thread().when_ready(self._replies, len(self._ranks), when_over)

    @property
    def is_old(self) -> bool:
        """Whether one of them was gone before a call that comes now."""
        return self._replies is not None and self._replies.arrived > 0

    @property
    def is_over(self) -> bool:
        return self._replies is not None and self._replies.arrived == len(self._ranks)

    def error(self) -> SupervisionError:
        """What happened to the last of them."""
        from monarch._actor.supervision import error_of_death

        assert self._replies is not None, "it is over"
        subject = Subject("PortReceiver.recv", self.root.region.extent, self.root)
        return error_of_death(subject, self._replies.message(self._replies.arrived - 1))

    def call_off(self) -> None:
        if self._targets is not None and not self.is_over:
            self._targets.cast(self._me, UNWATCH, self._token)
