"""A user who does not want to wait for the end of a program need not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).with_name("hurried.py")

# It would wait for an hour.
PATIENCE_S = 60.0


def test_ctrl_c_during_the_end_kills_who_does_not_end(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(told)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not told.exists():
            assert time.monotonic() < deadline and program.poll() is None, "the program does not end its workers"
            time.sleep(0.01)
        os.kill(program.pid, signal.SIGINT)
        said, _ = program.communicate(timeout=PATIENCE_S)
    finally:
        program.kill()
        program.wait()
    assert said == "ready\nhurried\n"
    assert program.returncode == 0
