"""Transfers as futures."""

from __future__ import annotations

from functools import cache

from monarch._actor import settings
from monarch._actor.future import Future
from monarch._actor.shape import Extent
from monarch._native import Notifier, RdmaHandle, RdmaMemory, RdmaTransfer
from monarch.rdma._errors import error_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A buffer, an offset in it, memory here, how many bytes, and whether they go into the buffer.
Asked = tuple[RdmaHandle, int, RdmaMemory, int, bool]

# How many failed copies an error lists before it only counts the rest.
_LISTED = 8


def start(asked: list[Asked], timeout: float, label: str) -> Future[None]:
    """Begin to move; the future is done when all is over. `timeout` is in seconds."""
    moving: Any = _Moving(RdmaTransfer(asked, _checked(timeout), _threads()))
    return Future._of(moving, 1, _outcome, _Label(label), quiet=True)


class _Moving:
    """To a future it is its `Replies`."""

    __slots__ = ("_over", "transfer")

    arrived = 0  # an error that nobody retrieves is not printed
    expected = 0

    def __init__(self, transfer: RdmaTransfer) -> None:
        self.transfer = transfer
        self._over = transfer.replies()

    def cancel(self) -> None:
        self.transfer.cancel()

    def pending(self) -> list[int]:
        return []

    def ready(self, count: int) -> bool:
        return self._over.ready(count)

    def wait(self, count: int, timeout: float | None = None) -> bool:
        return self._over.wait(count, timeout)

    def notify(self, count: int, notifier: Notifier, token: int) -> None:
        self._over.notify(count, notifier, token)


class _Label:
    """What such a future waits for, in words."""

    __slots__ = ("label",)

    extent = Extent((), ())
    root = None

    def __init__(self, label: str) -> None:
        self.label = label

    def is_answered_here(self, replies: object) -> bool:
        return False


def _outcome(subject: Any, moving: Any) -> None:
    errors = moving.transfer.errors()
    if not errors:
        return
    _, (kind, text) = errors[0]
    if len(errors) > 1:
        listed = "; ".join(f"copy {number}: {text}" for number, (_, text) in errors[:_LISTED])
        more = f"; and {len(errors) - _LISTED} more" if len(errors) > _LISTED else ""
        text = f"{len(errors)} copies failed: {listed}{more}"
    raise error_of(kind, f"{subject.label} failed: {text}")


def now(label: str, error: tuple[str, str] | None = None) -> Future[None]:
    """A future that is done already, with `error` as the native module tells it."""

    def outcome(_: object) -> None:
        if error is not None:
            raise error_of(error[0], f"{label} failed: {error[1]}")

    return Future._now(outcome, _Label(label))


@cache
def _threads() -> int:
    """Decided once, at the first transfer."""
    import os

    wanted: int = settings.value("rdma_runtime_worker_threads")
    return max(1, min(wanted, os.cpu_count() or 1))


def _checked(timeout: float) -> float:
    """Seconds; what cannot be a number of them is a `TypeError`, `OverflowError` or `ValueError`."""
    seconds = timeout if isinstance(timeout, float) else timeout.__index__()
    if seconds < 0 or seconds >= 1 << 64:
        raise OverflowError(f"a timeout is a number of seconds from 0 on that fits into 64 bits, not {timeout}")
    return float(seconds)
