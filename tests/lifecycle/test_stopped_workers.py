"""A worker that is stopped by a signal does not keep its program from ending, and ends in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, signal, sys
from pathlib import Path
from monarch.actor import Actor, endpoint, this_host

class Worker(Actor):
    @endpoint
    def pid(self):
        return os.getpid()

    def __cleanup__(self, exc):
        Path(sys.argv[1]).touch()

pid = this_host().spawn_procs().spawn("worker", Worker).pid.call_one().get()
os.kill(pid, signal.SIGSTOP)
"""


def test_a_stopped_worker_cleans_up_when_its_client_ends(tmp_path: Path) -> None:
    cleaned_up = tmp_path / "cleaned up"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(cleaned_up)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert cleaned_up.exists()
