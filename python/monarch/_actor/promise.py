"""`Promise`: the other end of a `Future` whose outcome is decided here, rather than by the answers to one message."""

from __future__ import annotations

from _thread import allocate_lock

from monarch import _native
from monarch._actor.future import Future
from monarch._actor.generics import Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch._actor.future import Awaited

R = TypeVar("R")


class Promise(Generic[R]):
    """Settled once, with a function that returns the value or raises the error. To a future it is its `Replies`."""

    __slots__ = ("_lock", "_signal", "_withdraw", "outcome", "replies")

    arrived = 0  # an error that nobody retrieves is not printed

    def __init__(self, withdraw: Callable[[], object]) -> None:
        """`withdraw` is called where the future is cancelled before this is settled."""
        self.outcome: Callable[[], R] | None = None
        self.replies: _native.Replies | None = None  # what is waited for at present
        self._withdraw = withdraw
        self._signal = _native.Replies()
        self._lock = allocate_lock()

    def future(self, subject: Awaited, to_own_mesh: bool = False) -> Future[R]:
        replies: Any = self
        return Future._of(replies, 1, _outcome, subject, to_own_mesh=to_own_mesh, quiet=True, is_only=True)

    @property
    def settled(self) -> bool:
        """Whether there is an outcome, or nobody wants one any more."""
        return self._signal.ready(1)

    def settle(self, outcome: Callable[[], R], before: Callable[[], object] | None = None) -> bool:
        """Complete the future; False where that has happened already. `before` is done when somebody sees it."""
        with self._lock:
            if self.settled:
                return False
            self.outcome = outcome
            if before is not None:
                before()
            self._signal.complete()
            return True

    def fail(self, error: Exception, before: Callable[[], object] | None = None) -> bool:
        trace = error.__traceback__

        def outcome() -> R:
            raise error.with_traceback(trace)  # without what earlier observers have added

        return self.settle(outcome, before)

    # --- what a future wants of its `Replies` -------------------------------------------------------------------------

    def cancel(self) -> None:
        with self._lock:
            if self.settled:
                return
            self._signal.complete()
        self._withdraw()

    @property
    def expected(self) -> int:
        return self.replies.expected if self.replies is not None else 0

    def pending(self) -> list[int]:
        return self.replies.pending() if self.replies is not None else []

    def ready(self, count: int) -> bool:
        return self._signal.ready(count)

    def wait(self, count: int, timeout: float | None = None) -> bool:
        return self._signal.wait(count, timeout)

    def notify(self, count: int, notifier: _native.Notifier, token: int) -> None:
        self._signal.notify(count, notifier, token)


def _outcome(subject: Any, promise: Any) -> Any:
    return promise.outcome()
