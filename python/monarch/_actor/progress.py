"""How far something that takes long has come: a line on a terminal, a display in a notebook, nothing elsewhere.

Only for what the main thread waits for, and only after a while. What is shown is gone when the wait is over.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any, Protocol

    from monarch._actor.future import Awaited
    from monarch._native import Replies

    class Display(Protocol):
        """Where it is shown."""

        def show(self, text: str) -> None: ...
        def clear(self) -> None: ...


# How long somebody has waited before anything is shown.
PATIENCE_S = 1.0

_REFRESH_S = 0.2

# What leaves this process within a blink on any network is not shown.
_MUCH_BYTES = 16 << 20


def wait(subject: Awaited, replies: Replies, count: int, timeout: float | None) -> bool:
    """As `replies.wait(count, timeout)`, for who has waited for a while already."""
    display = _display() if _report_or_transfer(subject, replies) else None
    if display is None:
        return replies.wait(count, timeout)
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        while (text := _report_or_transfer(subject, replies)) is not None:
            display.show(text)
            left = _REFRESH_S if deadline is None else min(_REFRESH_S, deadline - time.monotonic())
            if left <= 0:
                return False
            if replies.wait(count, left):
                return True
    finally:
        display.clear()
    return replies.wait(count, None if deadline is None else max(0.0, deadline - time.monotonic()))


def watch(loop: asyncio.AbstractEventLoop, subject: Awaited, replies: Replies) -> Callable[[], None] | None:
    """Show it while a coroutine waits; what to call when it does not any more. None where nothing is to show."""
    if _report(subject, replies) is None:
        return None
    display = _display()
    if display is None:
        return None
    watched = _Watched(loop, display, lambda: _report(subject, replies))
    return watched.end


class _Watched:
    """A display that an event loop keeps up to date."""

    def __init__(self, loop: asyncio.AbstractEventLoop, display: Display, report: Callable[[], str | None]) -> None:
        self._loop = loop
        self._display = display
        self._report = report
        self._next = loop.call_later(PATIENCE_S, self._show)

    def _show(self) -> None:
        text = self._report()
        if text is None:
            self._display.clear()
            return
        self._display.show(text)
        self._next = self._loop.call_later(_REFRESH_S, self._show)

    def end(self) -> None:
        self._next.cancel()
        self._display.clear()


def _report(subject: Awaited, replies: Replies) -> str | None:
    """What goes on, and how far it is; None for what has no stages."""
    root = subject.root
    work = getattr(subject, "work", "")
    # A call to actors that are being made waits for that first.
    spawned = None if work else getattr(root, "spawned", None)
    if spawned is not None:
        replies, work = spawned, "starting actors"
    if root is None or not work or replies.ready(replies.expected):
        return None
    return f"{work} {root.name}: {replies.arrived} of {replies.expected}"


def _report_or_transfer(subject: Awaited, replies: Replies) -> str | None:
    """As `_report`; of what has no stages, how much has not left this process yet, where that is much."""
    text = _report(subject, replies)
    if text is not None or replies.ready(replies.expected):
        return text
    from monarch._actor import context

    to_go = context._process.runtime.backlog() if context._process is not None else 0
    return f"sending: {to_go / 1e6:.0f} MB to go" if to_go >= _MUCH_BYTES else None


def _display() -> Display | None:
    """Where this thread's progress is shown, if anywhere."""
    import threading

    from monarch._actor import settings
    from monarch._actor.notebook import in_notebook

    if threading.current_thread() is not threading.main_thread() or not settings.value("show_progress"):
        return None
    if in_notebook():
        return _Cell()
    try:
        return _Line() if sys.stderr.isatty() else None
    except (AttributeError, ValueError):  # there is none, or it is closed
        return None


class _Line:
    """The last line of a terminal."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, text: str) -> None:
        import shutil

        text = text[: shutil.get_terminal_size().columns - 1]
        self._write(f"\r{text.ljust(self._width)}")
        self._width = len(text)

    def clear(self) -> None:
        if self._width:
            self._write(f"\r{' ' * self._width}\r")
            self._width = 0

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class _Cell:
    """An output of a notebook's cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        if self._handle is None:
            from IPython import display  # type: ignore[import-not-found, unused-ignore]

            show: Any = display.display
            self._handle = show(_Plain(text), display_id=True)
        else:
            self._handle.update(_Plain(text))

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.update(_Plain(""))
            self._handle = None


class _Plain:
    """A text that a notebook shows as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
