"""The training example loses worker after worker and ends where an undisturbed run does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "fault_tolerant_training.py"

RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.torch


def train(run_program: RunProgram, workers: int, steps: int, kills: int, timeout: float) -> None:
    sizes = ("--workers", str(workers), "--steps", str(steps), "--kills", str(kills))
    done = run_program(str(EXAMPLE), *sizes, timeout=timeout)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert f"{kills} processes killed, {kills} recoveries" in done.stdout
    undisturbed, disturbed = (line for line in done.stdout.splitlines() if line.startswith("loss"))
    ours, theirs = float(undisturbed.split()[-1]), float(disturbed.split()[2])
    assert abs(theirs - ours) <= 1e-6 * abs(ours)


def test_training_survives_two_kills_and_reaches_the_undisturbed_loss(run_program: RunProgram) -> None:
    train(run_program, workers=2, steps=12, kills=2, timeout=110)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_training_survives_ten_kills_and_reaches_the_undisturbed_loss(run_program: RunProgram) -> None:
    train(run_program, workers=4, steps=60, kills=10, timeout=590)
