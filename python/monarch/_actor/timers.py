"""Functions to be called later, on one thread for all of them."""

from __future__ import annotations

import threading
import time
from _heapq import heappop, heappush

from monarch._actor.thread_context import start_service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """A call that is due at some time, and can be given up before."""

    __slots__ = ("callback", "due")

    def __init__(self, due: float, callback: Callable[[], object]) -> None:
        self.due = due
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def __lt__(self, other: Timer) -> bool:
        return self.due < other.due


class Timers:
    """The timers of this process."""

    def __init__(self) -> None:
        self._waiting: list[Timer] = []
        self._changed = threading.Condition()
        start_service(self._run, "monarch-timers")

    def after(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """Call `callback()` in `delay_s` seconds. It must not block for long."""
        timer = Timer(time.monotonic() + delay_s, callback)
        with self._changed:
            heappush(self._waiting, timer)
            if self._waiting[0] is timer:
                self._changed.notify()
        return timer

    def _run(self) -> None:
        while True:
            callback = self._next().callback
            if callback is not None:
                _guarded(callback)
            del callback

    def _next(self) -> Timer:
        with self._changed:
            while not self._waiting or (left := self._waiting[0].due - time.monotonic()) > 0:
                self._changed.wait(left if self._waiting else None)
            return heappop(self._waiting)


def _guarded(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        import sys

        sys.excepthook(*sys.exc_info())


_timers: Timers | None = None
_timers_lock = threading.Lock()


def timers() -> Timers:
    """The timers of this process, started at first need."""
    global _timers
    with _timers_lock:
        if _timers is None:
            _timers = Timers()
        return _timers
