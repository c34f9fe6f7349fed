"""How the runtime says "done" to Python: event loops watch a descriptor, callbacks have a thread.

Nobody takes the interpreter lock to tell us something: native threads queue tokens on a `Notifier`, and the thread that
owns the notifier reads many of them at once.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from monarch._actor.notebook import in_notebook
from monarch._actor.thread_context import start_service
from monarch._native import Notifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator
    from typing import TypeVar

    from monarch._native import Replies

    T = TypeVar("T")


# How soon a cell that waits notices that it is interrupted.
_TICK_S = 0.1


class LoopWaits:
    """Waits of one event loop: all of them share one descriptor."""

    __slots__ = ("_next", "_notifier", "_ticks", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._notifier = Notifier()
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._next = 0
        self._ticks: bool | None = False if in_notebook() else None
        loop.add_reader(self._notifier.fileno(), self._deliver)

    def wait(self, loop: asyncio.AbstractEventLoop, replies: Replies, count: int) -> Generator[object, None, None]:
        """Suspend the current task until `replies` are ready for `count`; `yield from` it."""
        waiter: asyncio.Future[None] = loop.create_future()
        token = self.when_ready(replies, count, waiter)
        try:
            yield from waiter
        finally:
            self.forget(token)

    def when_ready(self, replies: Replies, count: int, waiter: asyncio.Future[None]) -> int:
        """Let `waiter` be done once `replies` are ready for `count`; returns what `forget` wants."""
        self._next = token = self._next + 1
        self._waiters[token] = waiter
        if self._ticks is False:
            self._tick()
        replies.notify(count, self._notifier, token)
        return token

    def forget(self, token: int) -> None:
        self._waiters.pop(token, None)

    def _tick(self) -> None:
        """In a notebook: wake the loop while a cell waits. Of an interrupt a kernel only makes a note for the loop."""
        import asyncio

        self._ticks = bool(self._waiters)
        if self._ticks:
            asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _deliver(self) -> None:
        for token in self._notifier.drain():
            waiter = self._waiters.pop(token, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWaits] = WeakKeyDictionary()


def waits_of(loop: asyncio.AbstractEventLoop) -> LoopWaits:
    """The waits of `loop`, made at first need. To be called on the loop's own thread."""
    waits = _loops.get(loop)
    if waits is None:
        waits = _loops[loop] = LoopWaits(loop)
    return waits


class CallbackThread:
    """Runs the callbacks of all futures, one after the other."""

    def __init__(self) -> None:
        self._notifier = Notifier()
        self._callbacks: dict[int, tuple[Callable[[], object], object]] = {}
        self._lock = threading.Lock()
        self._next = 0
        start_service(self._run, "monarch-callbacks")

    def when_ready(self, replies: Replies, count: int, callback: Callable[[], object], key: object = None) -> None:
        """Run `callback` once `replies` are ready for `count`, unless its `key` is forgotten first."""
        with self._lock:
            self._next = token = self._next + 1
            self._callbacks[token] = callback, key
        replies.notify(count, self._notifier, token)

    def forget(self, key: object) -> int:
        """Run no callback of this key any more; how many that were."""
        with self._lock:
            tokens = [token for token, (_, known) in self._callbacks.items() if known == key]
            return sum(self._callbacks.pop(token, None) is not None for token in tokens)

    def _run(self) -> None:
        while True:
            for token in self._notifier.wait():
                with self._lock:
                    callback, _ = self._callbacks.pop(token, (None, None))
                if callback is not None:
                    _guarded(callback)
                del callback


def _guarded(callback: Callable[[], object]) -> None:
    """Whatever a callback raises is reported and ends nothing: the callbacks of others wait for this thread."""
    import sys

    try:
        try:
            callback()
        except BaseException:
            sys.excepthook(*sys.exc_info())
    except BaseException:  # the program's own hook
        sys.__excepthook__(*sys.exc_info())


def call_on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[T], object], argument: T) -> None:
    """From another thread: let `loop` call `callback(argument)`; where it is closed nobody is there to be told."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback, argument)


_callback_thread: CallbackThread | None = None
_callback_thread_lock = threading.Lock()


def callback_thread() -> CallbackThread:
    """The callback thread of this process, started at first need."""
    global _callback_thread
    with _callback_thread_lock:
        if _callback_thread is None:
            _callback_thread = CallbackThread()
        return _callback_thread
