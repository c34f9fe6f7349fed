"""Nothing is lost, doubled or put out of order, however much is written and whoever dies."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest
from test_output import BEGIN

Run = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """
workers, lines, killed = {workers}, {lines}, {killed}
procs, p = printers(workers)
procs.logging_option(stream_to_client=True).get()
def die(rank):
    member = p.slice(gpus=rank)
    return member.count_and_die.call_one(lines // 2)
calls = [die(rank) if rank in killed else p.slice(gpus=rank).count.call_one(lines) for rank in range(workers)]
for call in calls:
    call.exception(120)
"""


def arrived(text: str) -> dict[int, list[int]]:
    """The numbers of the lines of each rank, in the order in which they were shown."""
    found: dict[int, list[int]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\[w (\d+)\] rank (\d+) line (\d+)", line)
        # In a slice of one process every rank is 0.
        assert match is not None and match[2] == "0", line
        found.setdefault(int(match[1]), []).append(int(match[3]))
    return found


def check(run_program: Run, workers: int, lines: int, killed: set[int]) -> None:
    program = PROGRAM.format(workers=workers, lines=lines, killed=killed)
    done = run_program("-c", BEGIN + program, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    for stream, text in enumerate((done.stdout, done.stderr)):
        written = {rank: list(range(stream, lines // 2 if rank in killed else lines, 2)) for rank in range(workers)}
        assert arrived(text) == written


def test_every_line_of_living_and_killed_workers_arrives_once_and_in_order(run_program: Run) -> None:
    check(run_program, workers=3, lines=2_000, killed={1})


@pytest.mark.long
def test_a_hundred_thousand_lines_of_eight_workers_of_which_two_die(run_program: Run) -> None:
    check(run_program, workers=8, lines=14_286, killed={2, 5})
