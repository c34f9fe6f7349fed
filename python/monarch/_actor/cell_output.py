"""IPython: the output of processes is shown below the cell that runs, and all of it before the cell is done."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from contextlib import suppress

from monarch._actor.notebook import in_notebook, ipython
from monarch._actor.thread_context import start_service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Context as Variables
    from typing import Any

    from monarch._native import Runtime

# How long the end of a cell may be held up.
PATIENCE_S = 3.0

_AT_ONCE = 64 << 10


def set_up(runtime: Runtime) -> tuple[int, int]:
    """The descriptors where standard output and standard error of processes are shown.

    In a notebook those are not the program's own, which lead to whoever started the kernel.
    """
    screen = Screen() if in_notebook() else None
    CellEnds(ipython(), runtime, screen).watch()
    return (1, 2) if screen is None else screen.descriptors


class CellEnds:
    """Holds up the end of a cell until everything is shown that processes have written."""

    def __init__(self, shell: Any, runtime: Runtime, screen: Screen | None) -> None:
        self._shell = shell
        self._runtime = runtime
        self._screen = screen

    def watch(self) -> None:
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._show)

    def _begin(self, info: object) -> None:
        self._show()  # what was written while no cell ran belongs to the one before
        if self._screen is not None:
            self._screen.cell_begins()

    def _show(self, result: object = None) -> None:
        try:
            if self._runtime.flush_logs(PATIENCE_S) and self._screen is not None:
                self._screen.wait_until_shown(PATIENCE_S)
        except KeyboardInterrupt:
            pass  # whoever interrupts a cell does not want to wait for this; it is shown in a moment anyway


class Screen:
    """Two pipes; what is written to them appears below the cell that ran last."""

    def __init__(self) -> None:
        import codecs
        from contextvars import copy_context

        stdout, self._stdout = os.pipe()
        stderr, self._stderr = os.pipe()
        decoder = codecs.getincrementaldecoder("utf-8")
        self._sources = {stdout: ("stdout", decoder("replace")), stderr: ("stderr", decoder("replace"))}
        for source in self._sources:
            os.set_blocking(source, False)
        self._woken, self._wake = os.pipe()
        self._questions: deque[threading.Event] = deque()
        self._cell: Variables = copy_context()
        start_service(self._run, "monarch-cells")

    @property
    def descriptors(self) -> tuple[int, int]:
        """Where to write standard output and standard error."""
        return self._stdout, self._stderr

    def cell_begins(self) -> None:
        """What comes from now on belongs to the cell that begins here: kernels keep that in a context variable."""
        from contextvars import copy_context

        self._cell = copy_context()

    def wait_until_shown(self, timeout_s: float) -> None:
        """Wait until what was written before is below its cell."""
        answered = threading.Event()
        self._questions.append(answered)
        os.write(self._wake, b"?")
        answered.wait(timeout_s)

    def _run(self) -> None:
        import select

        while True:
            ready, _, _ = select.select([self._woken, *self._sources], [], [])
            if self._woken in ready:
                os.read(self._woken, 1)
            # Taken before it reads: what was there when they were asked has been shown when they are answered.
            questions = [self._questions.popleft() for _ in range(len(self._questions))]
            for source, (name, decoder) in self._sources.items():
                while text := _read(source):
                    self._show(name, decoder.decode(text))
            for answered in questions:
                answered.set()

    def _show(self, name: str, text: str) -> None:
        with suppress(Exception):  # a stream that the program has closed, or put in the place of the kernel's
            self._cell.run(getattr(sys, name).write, text)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _AT_ONCE)
    except BlockingIOError:
        return b""
