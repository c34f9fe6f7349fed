"""`Inbox`: messages that have arrived and wait for their actor."""

from __future__ import annotations

from collections import deque

from monarch._native import STATUS_CALL, STATUS_CANCEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Identifies a call between its caller and the one who serves it.
    CallId = bytes | None

    from collections.abc import Iterable

    from monarch._native import Message


class Inbox:
    """The queue of one actor, from which a caller may withdraw a call that still waits."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[Message] = deque()

    def put(self, messages: Iterable[Message]) -> list[CallId]:
        """Take in what has arrived; returns the cancelled calls that do not wait here."""
        not_here: list[CallId] = []
        for message in messages:
            if message.status == STATUS_CALL:
                self.waiting.append(message)
            elif message.status == STATUS_CANCEL and not self._withdraw(message.call_id):
                not_here.append(message.call_id)
        return not_here

    def _withdraw(self, call: CallId) -> bool:
        for message in self.waiting:
            if message.call_id == call:
                self.waiting.remove(message)
                return True
        return False
