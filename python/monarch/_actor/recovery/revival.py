"""Waiting, without a thread, until actors that failed can be asked again."""

from __future__ import annotations

from monarch._actor.descriptors import LOOK_UP
from monarch._actor.timers import timers
from monarch._actor.wakeups import callback_thread
from monarch._native import STATUS_VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from monarch._native import Replies, Targets

# Pauses between two questions, in seconds. A dead actor answers at once, one that is being made when it is ready.
SHORTEST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.5


class Revival:
    """Asks all of `targets` again and again until they answer (`then(True)`) or it is `hopeless` (`then(False)`)."""

    def __init__(
        self, targets: Targets, sender: bytes, hopeless: Callable[[], bool], then: Callable[[bool], object]
    ) -> None:
        self._targets = targets
        self._sender = sender
        self._hopeless = hopeless
        self._then = then
        self._pause_s = SHORTEST_PAUSE_S
        timers().after(0, self._ask)

    def _ask(self) -> None:
        replies = self._targets.call(self._sender, LOOK_UP, b"")
        callback_thread().when_ready(replies, len(self._targets), lambda: self._answered(replies))

    def _answered(self, replies: Replies) -> None:
        if all(replies.message(i).status == STATUS_VALUE for i in range(replies.arrived)):
            self._then(True)
        elif self._hopeless():
            self._then(False)
        else:
            timers().after(self._pause_s, self._ask)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
