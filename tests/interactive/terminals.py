"""A program at a terminal, which a test types into and reads from."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

WITHIN_S = 60.0

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """Runs a program whose controlling terminal this is, so that Ctrl-C goes to it as from a keyboard."""

    def __init__(self, command: list[str], place: Path, environment: dict[str, str], columns: int = 200) -> None:
        self._ours, theirs = pty.openpty()
        name = os.ttyname(theirs)
        # The first terminal that the leader of a session opens is the one that controls it.
        takes_it = ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&1', name]
        self._program = subprocess.Popen(
            [*takes_it, *command],
            cwd=place,
            env={**environment, "COLUMNS": str(columns)},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        self._theirs = theirs  # held open until the program has it, too
        self._unread = ""
        self.output = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def enter(self, line: str) -> None:
        self.type(line + "\n")

    def read_until(self, text: str) -> str:
        """What is shown up to `text`, from where was read before; an `AssertionError` where it does not come."""
        deadline = time.monotonic() + WITHIN_S
        while text not in self._unread:
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self._ours], [], [], left)[0]
            assert ready and self._read(), f"{text!r} is not shown, but this:\n{self.output}"
        before, found, self._unread = self._unread.partition(text)
        return before + found

    def read_to_the_end(self) -> tuple[str, int]:
        """What else is shown, and the status that the program ends with."""
        status = self._program.wait(WITHIN_S)
        os.close(self._theirs)
        while self._read():
            pass
        return self._unread, status

    def _read(self) -> bool:
        try:
            text = os.read(self._ours, 4096).decode(errors="replace").replace("\r\n", "\n")
        except OSError:  # nobody is at the other end
            return False
        self._unread += text
        self.output += text
        return bool(text)

    def close(self) -> None:
        if self._program.poll() is None:
            self._program.kill()
            self._program.wait()
            os.close(self._theirs)
        os.close(self._ours)
