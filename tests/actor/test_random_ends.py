"""A program ended by a signal at a random moment leaves nothing behind, whatever its workers have started."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import assert_gone, marked_environment, marked_processes

PROGRAM = """
import os, subprocess, sys, time
from monarch.actor import Actor, endpoint, this_host

print("begins", flush=True)

class Parent(Actor):
    def __init__(self):
        command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        self.child = subprocess.Popen(command, start_new_session=True)
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)

    @endpoint
    def work(self, n):
        return bytearray(n)

parents = this_host().spawn_procs({"gpus": 3}).spawn("parents", Parent)
n = 0
while True:
    n += 1
    parents.work.call(n * 1000 % 300_000).get()
"""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
RUNS = 51

# Long enough to meet every stage: the start of the runtime, of the workers, of their children, and their work.
LAST_MOMENT_S = 1.2


@pytest.mark.long
@pytest.mark.timeout(400)
def test_nothing_outlives_a_program_that_is_ended_at_a_random_moment(tmp_path: Path) -> None:
    seed = int(os.environ.get("MONARCH_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"MONARCH_TEST_SEED={seed}")
    moments = random.Random(seed)
    before = shared_memory()
    for run in range(RUNS):
        number = SIGNALS[run % len(SIGNALS)]
        end_at(moments.uniform(0, LAST_MOMENT_S), number, tmp_path)
    assert shared_memory() <= before
    assert not list(tmp_path.iterdir())


def end_at(moment_s: float, number: signal.Signals, place: Path) -> None:
    environment, mark = marked_environment()
    environment |= {"TMPDIR": str(place), "XDG_RUNTIME_DIR": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begins\n"
        time.sleep(moment_s)  # the moment is what the test varies
        program.send_signal(number)
        program.wait(timeout=30)
        assert_gone(lambda: marked_processes(mark), f"{number.name} after {moment_s:.3f} s")


def shared_memory() -> set[str]:
    return {entry.name for entry in Path("/dev/shm").iterdir()}
