"""Threads and executors that an actor starts keep its context, without the program's doing.

Python gives a new thread an empty context (before 3.14), so an actor's helper threads would not know whose they are.
So `Thread.start` is wrapped, and, once executors are in use, `ThreadPoolExecutor.submit`: work belongs to whoever
submits it, not to whoever's work once made the executor start a thread.
"""

from __future__ import annotations

import sys
import threading
from contextvars import Context as Variables

from monarch._actor.context import _context
from monarch._native import never_wait_for_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch._actor.context import Context

_lock = threading.Lock()
_wrapped: set[type] = set()


def install() -> None:
    """From now on threads inherit the context of the actor that starts them."""
    with _lock:
        if threading.Thread in _wrapped:
            return
        _wrapped.add(threading.Thread)
    _wrap_start()
    _look_for_executors()


def start_service(target: Callable[[], object], name: str) -> threading.Thread:
    """Start a thread of the library itself: a daemon, which works for no actor in particular."""
    thread = threading.Thread(target=_serve, args=(target,), name=name, daemon=True)
    Variables().run(thread.start)
    return thread


def _serve(target: Callable[[], object]) -> None:
    # Whoever waits for this thread must not wait for those that it sends to.
    never_wait_for_room()
    target()


def run_as(current: Context | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function in the context of an actor."""
    token = _context.set(current)
    try:
        return function(*args, **kwargs)
    finally:
        _context.reset(token)


def _wrap_start() -> None:
    start = threading.Thread.start

    def start_with_context(thread: threading.Thread) -> None:
        current = _context.get()
        if current is not None:
            _run_as(thread, current.elsewhere())
        _look_for_executors()
        start(thread)

    threading.Thread.start = start_with_context  # type: ignore[method-assign, assignment]


def _run_as(thread: threading.Thread, current: Context) -> None:
    """Let the thread's `run` begin with the context; the thread is as it was when its own code runs."""

    def run() -> None:
        del thread.run
        _context.set(current)
        thread.run()

    thread.run = run  # type: ignore[method-assign]


def _look_for_executors() -> None:
    """Wrap `submit`, where executors are there: the import takes long, and most programs need none."""
    module = sys.modules.get("concurrent.futures.thread")
    executor = getattr(module, "ThreadPoolExecutor", None)  # not there yet while the module is being imported
    if executor is None or executor in _wrapped:
        return
    with _lock:
        if executor in _wrapped:
            return
        _wrapped.add(executor)
    submit = executor.submit

    def submit_with_context(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        current = _context.get()
        if current is None:
            return submit(self, fn, *args, **kwargs)
        return submit(self, run_as, current.elsewhere(), fn, *args, **kwargs)

    executor.submit = submit_with_context
