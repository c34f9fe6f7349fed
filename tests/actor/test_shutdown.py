"""The end of the client before the end of the program."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from monarch.actor import Actor, ActorError, ProcMesh, endpoint, shutdown_context

RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = """
import sys, time
from monarch.actor import Actor, context, endpoint, shutdown_context, this_host, this_proc
from monarch.actor import Future, SupervisionError

class Notes(Actor):
    @endpoint
    def hello(self):
        return "hello"
    def __cleanup__(self, exc):
        with open("clean-up", "a") as file:
            print(exc, file=file)
"""


def test_it_may_be_repeated_and_the_exit_status_is_the_programs_own(run_program: RunProgram, tmp_path: Path) -> None:
    code = f"""{PROGRAM}
notes = this_host().spawn_procs().spawn("notes", Notes)
print(notes.hello.call_one().get())
first = shutdown_context()
print(first.get(), shutdown_context() is first, shutdown_context(3).get(), first.done())
sys.exit(7)
"""
    done = run_program("-c", code)
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout == "hello\nNone True None True\n"
    assert (tmp_path / "clean-up").read_text() == "None\n"


def test_it_begins_at_once_and_ends_actors_of_the_program_process_too(run_program: RunProgram, tmp_path: Path) -> None:
    code = f"""{PROGRAM}
here = this_proc().spawn("here", Notes)
here.hello.call_one().get()
ending = shutdown_context(host_timeout=5)
while not ending.done():
    time.sleep(0.01)
"""
    done = run_program("-c", code)
    assert (done.stdout, done.stderr) == ("", "")
    assert (tmp_path / "clean-up").read_text() == "None\n"


def test_a_program_without_a_client_stays_without(run_program: RunProgram) -> None:
    code = """
from monarch._src.actor.actor_mesh import _context
from monarch.actor import shutdown_context, this_host
ended = shutdown_context()
print(ended.done(), ended.get(), _context.get())
print(this_host().spawn_procs().initialized.get())
"""
    done = run_program("-c", code)
    assert (done.stdout, done.stderr) == ("True None None\nTrue\n", "")


def test_what_is_asked_for_afterwards_fails_at_once(run_program: RunProgram) -> None:
    code = f"""{PROGRAM}
procs = this_host().spawn_procs()
notes = procs.spawn("notes", Notes)
notes.hello.call_one().get()
shutdown_context().get()
for use in (
    lambda: this_host().spawn_procs(),
    lambda: this_proc().spawn("here", Notes),
    lambda: procs.spawn("there", Notes),
    lambda: notes.hello.call_one().get(),
):
    try:
        use()
    except RuntimeError as error:
        print(f"{{type(error).__name__}}: {{error}}")
"""
    done = run_program("-c", code)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "RuntimeError: cannot start processes: the program has shut its client down, and there is no second one",
        "RuntimeError: cannot spawn 'here': the program has shut its client down, and there is no second one",
        "RuntimeError: cannot spawn 'there': processes 'anon' were stopped: the program shut its client down",
        "SupervisionError: Endpoint call notes.hello() failed: mesh 'notes' was stopped: "
        "the program shut its client down",
    ]


@pytest.mark.parametrize("limit", [-1, float("inf"), float("nan")])
def test_a_limit_that_makes_no_sense_is_refused(limit: float) -> None:
    with pytest.raises(ValueError, match="host_timeout is"):
        shutdown_context(limit)


class Presumptuous(Actor):
    @endpoint
    def shut_down(self) -> None:
        shutdown_context()


def test_an_actor_shuts_no_program_down(one: ProcMesh) -> None:
    with pytest.raises(ActorError, match="only the program shuts its client down"):
        one.spawn("presumptuous", Presumptuous).shut_down.call_one().get(timeout=20)


def test_the_import_of_the_debugger_says_that_it_is_not_there() -> Any:
    with pytest.raises(ImportError, match="the debugger is not part of this version"):
        from monarch.actor import debug_controller  # type: ignore[attr-defined]  # noqa: F401
