"""The report of a death quotes what the process said last."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from test_output import BEGIN

Run = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """
reports = []
monarch.actor.unhandled_fault_hook = lambda failure: reports.append(failure.report())
procs, p = printers(2)
p.complain.call("first").get()
p.complain.call("second").get()
p.slice(gpus=1).complain.call_one("CUDA out of memory").get()
procs.logging_option(stream_to_client=False).get()
try: p.slice(gpus=1).die.call_one("").get()
except SupervisionError as error: print(error)
"""


@pytest.fixture
def run(run_program: Run) -> Run:
    def run(code: str) -> subprocess.CompletedProcess[str]:
        done = run_program("-c", BEGIN + code)
        assert done.returncode == 0, done.stderr
        return done

    return run


def quoted(text: str) -> list[str]:
    shown = text.splitlines()
    (begin,) = (number for number, line in enumerate(shown) if line.startswith("its last lines on stderr"))
    return [line.strip() for line in shown[begin + 1 :]]


def test_the_error_of_a_call_quotes_the_last_lines_and_names_the_file(run: Run) -> None:
    done = run(PROGRAM)
    assert "was killed by signal 9 (SIGKILL)\nits last lines on stderr (all of it is in /" in done.stdout
    assert "/w/1.stderr.log):\n" in done.stdout
    assert quoted(done.stdout) == ["first", "second", "CUDA out of memory"]


def test_a_key_says_how_many_lines(run: Run) -> None:
    assert quoted(run("configure(tail_log_lines=2)" + PROGRAM).stdout) == ["second", "CUDA out of memory"]
    assert "last lines" not in run("configure(tail_log_lines=0)" + PROGRAM).stdout


def test_the_report_to_the_owner_quotes_them_too(run: Run) -> None:
    done = run(
        """
from threading import Event
told = Event()
def hook(failure):
    print(failure.report())
    told.set()
monarch.actor.unhandled_fault_hook = hook
procs, p = printers(0)
p.complain.call_one("the reason").get()
procs.logging_option(stream_to_client=False).get()
p.die.broadcast("")
assert told.wait(30)
"""
    )
    assert quoted(done.stdout) == ["the reason"]


def test_a_process_that_said_nothing_is_not_quoted(run: Run) -> None:
    done = run(
        """
procs, p = printers(0)
try: p.die.call_one("").get()
except SupervisionError as error: print(error)
"""
    )
    assert "SIGKILL" in done.stdout
    assert "last lines" not in done.stdout
