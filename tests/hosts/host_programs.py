"""Programs of hosts, as the tests start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ENDS_WITHIN_S = 30.0


class HostProgram:
    """`monarch worker` as a process of its own."""

    def __init__(self, environment: dict[str, str], directory: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "monarch", "worker", *arguments]
        self.log = directory / f"host-{os.urandom(4).hex()}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                command, env=environment, cwd=directory, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        self.lines = self.process.stdout
        line = self.lines.readline()
        assert line.startswith("listening at "), f"{line!r}, {self.log.read_text()}"
        self.address = line.split()[-1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def status(self) -> int:
        """The exit status; waits for it."""
        return self.process.wait(ENDS_WITHIN_S)
