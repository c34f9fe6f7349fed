"""Random schedules of faults in real processes end as the state machine of ownership says.

Each schedule has a seed of its own, which a failure shows; `MONARCH_TEST_SEED` repeats one, or several with commas.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import assert_gone, marked_environment, marked_processes
from schedules import LAST, Machine, Schedule, make_schedule
from states import View

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")

SCHEDULES_PER_PROGRAM = 10

STATUSES = {"": 0, "end": 0, "failure": 1, "exception": 1, "os._exit": 3} | {
    name: -signal.Signals[name] for name in LAST if name.startswith("SIG")
}


@pytest.fixture(scope="session")
def machine() -> Machine:
    """The state machine as a program, built where `cargo test` has not done so."""
    build = ["cargo", "build", "--locked", "--quiet", "--package", "hyperactor", "--example", "ownership"]
    done = subprocess.run(
        [*build, "--message-format=json"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=600
    )
    [program] = [found for line in done.stdout.splitlines() if (found := json.loads(line).get("executable"))]
    return Machine(Path(program))


def seeds(count: int) -> list[int]:
    """New ones every time."""
    if repeated := os.environ.get("MONARCH_TEST_SEED"):
        found = [int(seed) for seed in repeated.split(",")]
        return found if len(found) > 1 else 2 * found  # once amid others, once as the last
    return [random.SystemRandom().randrange(1 << 31) for _ in range(count)]


class Run:
    """A program that plays schedules, and what it said."""

    def __init__(self, schedules: list[Schedule], directory: Path) -> None:
        self.schedules = schedules
        self.directory = directory
        temporary = directory / "temporary"
        temporary.mkdir()
        environment, mark = marked_environment()
        shared_memory = set(os.listdir("/dev/shm"))
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(directory)],
            input="".join(f"{schedule.to_json()}\n" for schedule in schedules),
            env={**environment, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=900,
        )
        self.status = done.returncode
        self.errors = done.stderr
        self.said = [json.loads(line) for line in done.stdout.splitlines()]
        assert_gone(lambda: marked_processes(mark), f"after {self}")
        assert list(temporary.iterdir()) == [], f"files are left after {self}"
        assert set(os.listdir("/dev/shm")) <= shared_memory, f"shared memory is left after {self}"

    def __str__(self) -> str:
        return f"MONARCH_TEST_SEED={','.join(str(schedule.seed) for schedule in self.schedules)}"

    def check(self) -> None:
        for index, schedule in enumerate(self.schedules):
            self._check_states(index, schedule)
        last = self.schedules[-1]
        statuses = {STATUSES[last.last]}
        if last.last == "failure":
            statuses = {int(state[0].split()[-1]) if "ended" in state[0] else 0 for state in _final(last)}
            self._check_heard(last)
        assert self.status in statuses, self._explain(last, f"status {self.status}, not {statuses}:\n{self.errors}")

    def _check_states(self, index: int, schedule: Schedule) -> None:
        said = [line for line in self.said if line["schedule"] == index]
        for line in said:
            if "left" in line:
                assert line["left"] == [], self._explain(schedule, f"processes {line['left']} are left")
            elif not line["right"]:
                expected = schedule.steps[line["step"]].expected
                pytest.fail(self._explain(schedule, f"step {line['step']}:\n{_difference(schedule, expected, line)}"))
        if schedule.last in ("", "end"):
            assert len(said) == len(schedule.steps) + 1, self._explain(schedule, f"it said {said}\n{self.errors}")

    def _check_heard(self, schedule: Schedule) -> None:
        """Of a program that ended by a failure the owners' own records tell what they heard."""
        heard = self.directory / str(len(self.schedules) - 1) / "heard"
        lines = [f"heard {line}" for line in heard.read_text().splitlines()] if heard.exists() else []
        view = View(schedule.all_events())
        seen = view.of(lines)
        expected = [view.of([line for line in state if line.startswith("heard")]) for state in _final(schedule)]
        assert seen in expected, self._explain(schedule, f"heard {sorted(seen)}, not one of {expected}")
        assert self.errors.count("a failure that nobody handled ends the program") <= 1

    def _explain(self, schedule: Schedule, what: str) -> str:
        return f"MONARCH_TEST_SEED={schedule.seed} (of {self}) {what}\n{schedule.describe()}"


def _final(schedule: Schedule) -> list[list[str]]:
    return schedule.steps[-1].expected


def _difference(schedule: Schedule, expected: list[list[str]], line: dict[str, list[str]]) -> str:
    view = View(schedule.all_events())
    seen = view.of(line["seen"])
    lines = []
    for state in expected:
        right = view.of(state)
        lines.append(f"  missing {sorted(right - seen)}, not expected {sorted(seen - right)}")
    return "\n".join(lines)


def play(count: int, machine: Machine, directory: Callable[[], Path]) -> None:
    """Play that many schedules in programs of a few each, which end in all ways there are."""
    waiting = seeds(count)
    while waiting:
        batch, waiting = waiting[:SCHEDULES_PER_PROGRAM], waiting[SCHEDULES_PER_PROGRAM:]
        schedules = [make_schedule(seed, "", machine) for seed in batch[:-1]]
        schedules.append(make_schedule(batch[-1], LAST[batch[-1] % len(LAST)], machine))
        Run(schedules, directory()).check()


@pytest.mark.timeout(600)
def test_random_schedules_end_as_the_state_machine_says(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    play(10, machine, lambda: tmp_path_factory.mktemp("chaos"))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_five_hundred_random_schedules_end_as_the_state_machine_says(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    play(500, machine, lambda: tmp_path_factory.mktemp("chaos"))
