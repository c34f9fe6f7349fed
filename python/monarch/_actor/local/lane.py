"""`Lane`: the calls of one concurrent endpoint that has a limit."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.local.actor import Handler
    from monarch._actor.local.inbox import CallId
    from monarch._native import Message


class Lane:
    """At most `limit` calls run at a time; the others wait in their order."""

    __slots__ = ("_free", "waiting")

    def __init__(self, limit: int) -> None:
        self._free = limit
        self.waiting: deque[tuple[Message, Handler]] = deque()

    def enter(self, message: Message, handler: Handler) -> bool:
        """Whether this call may run now; else it waits here."""
        if self._free:
            self._free -= 1
            return True
        self.waiting.append((message, handler))
        return False

    def leave(self) -> tuple[Message, Handler] | None:
        """A call has ended; returns the one that runs in its place."""
        if self.waiting:
            return self.waiting.popleft()
        self._free += 1
        return None

    def withdraw(self, call: CallId) -> None:
        """Let a call that waits here go, if there is one of this id."""
        for waiting in self.waiting:
            if waiting[0].call_id == call:
                self.waiting.remove(waiting)
                return
