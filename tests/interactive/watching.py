"""Imported by what the tests type into: so that they interrupt a wait, and not what is before it."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable


def when_at(line: str, act: Callable[[], object]) -> None:
    """Call `act()`, in another thread, once the main thread is at such a line."""

    def watch() -> None:
        while line not in now():
            pass
        act()

    def now() -> str:
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        return linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0)

    threading.Thread(target=watch, daemon=True).start()
