"""What programs should not do, and some do: it costs them an error, never an answer or the end of what others use."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import assert_gone, eventually, marked_environment, marked_processes
from monarch.actor import Actor, ActorError, MeshFailure, ProcMesh, SupervisionError, endpoint
from sample_actors import Async, Echo

Faults = list[MeshFailure]
RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]

WITHIN_S = 20.0


def leave() -> None:
    raise SystemExit(3)


class LeavesWherePickled:
    """Its pickling raises `SystemExit`, from the second time on: the first is at the caller."""

    def __init__(self, times: int = 0) -> None:
        self.times = times

    def __reduce__(self) -> tuple[Any, ...]:
        if self.times == 0:
            leave()
        return LeavesWherePickled, (self.times - 1,)


class LeavesWhereUnpickled:
    def __reduce__(self) -> tuple[Any, ...]:
        return leave, ()


class ErrorThatLeavesWherePickled(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        raise SystemExit(3)


class ErrorThatLeavesWhereShown(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class ErrorThatLeavesWhereUnpickled(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        return leave, ()


class Odd(Actor):
    """Answers with, and raises, what does harm to who handles it."""

    @endpoint
    def result(self) -> object:
        return LeavesWherePickled()

    @endpoint
    def raises(self, cls: type[Exception]) -> None:
        raise cls("on purpose")

    @endpoint
    def hello(self, *ignored: object) -> str:
        return "hello"


class AsyncOdd(Actor):
    def __init__(self, path: str = os.devnull) -> None:
        self.path = path

    @endpoint
    async def result(self) -> object:
        return LeavesWherePickled()

    @endpoint
    async def raises(self, cls: type[Exception]) -> None:
        raise cls("on purpose")

    @endpoint
    async def hello(self, *ignored: object) -> str:
        return "hello"

    @endpoint
    async def leave_in_task_and_wait(self) -> None:
        self.task = asyncio.create_task(leave_in_task())
        await asyncio.Event().wait()

    @endpoint
    async def leave_in_callback(self) -> None:
        asyncio.get_running_loop().call_soon(leave)

    @endpoint
    async def cancel_what_serves(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    def __cleanup__(self, exc: Exception | None) -> None:
        with open(self.path, "a") as file:
            file.write(f"{exc}\n")


async def leave_in_task() -> None:
    leave()


@pytest.mark.parametrize("kind", [Odd, AsyncOdd])
def test_a_result_whose_pickling_exits_is_an_error_and_the_actor_lives(one: ProcMesh, kind: type[Any]) -> None:
    odd = one.spawn("odd", kind)
    with pytest.raises(TypeError, match=r"the result of odd\.result cannot be pickled: 3"):
        odd.result.call_one().get(timeout=WITHIN_S)
    assert odd.hello.call_one().get(timeout=WITHIN_S) == "hello"


@pytest.mark.parametrize("kind", [Odd, AsyncOdd])
@pytest.mark.parametrize(
    "error", [ErrorThatLeavesWherePickled, ErrorThatLeavesWhereShown, ErrorThatLeavesWhereUnpickled]
)
def test_an_exception_that_exits_where_it_is_handled_reaches_the_caller(
    one: ProcMesh, kind: type[Any], error: type[Exception]
) -> None:
    odd = one.spawn("odd", kind)
    with pytest.raises(ActorError, match=error.__name__):
        odd.raises.call_one(error).get(timeout=WITHIN_S)
    assert odd.hello.call_one().get(timeout=WITHIN_S) == "hello"


@pytest.mark.parametrize("kind", [Odd, AsyncOdd])
def test_an_argument_whose_unpickling_exits_is_an_error_and_the_actor_lives(one: ProcMesh, kind: type[Any]) -> None:
    odd = one.spawn("odd", kind)
    with pytest.raises(ActorError, match="SystemExit"):
        odd.hello.call_one(LeavesWhereUnpickled()).get(timeout=WITHIN_S)
    assert odd.hello.call_one().get(timeout=WITHIN_S) == "hello"


def test_a_constructor_argument_whose_unpickling_exits_is_why_there_is_no_actor(one: ProcMesh, faults: Faults) -> None:
    odd = one.spawn("odd", AsyncOdd, LeavesWhereUnpickled())
    with pytest.raises(ActorError, match="SystemExit"):
        odd.initialized.get(timeout=WITHIN_S)
    eventually(lambda: faults, "the program is told")


@pytest.mark.parametrize("how", ["leave_in_task_and_wait", "leave_in_callback", "cancel_what_serves"])
def test_what_breaks_an_event_loop_fails_its_actor(one: ProcMesh, faults: Faults, tmp_path: Path, how: str) -> None:
    path = tmp_path / "cleanup"
    odd = one.spawn("odd", AsyncOdd, str(path))
    first = getattr(odd, how).call_one()
    if how == "leave_in_task_and_wait":
        with pytest.raises(SupervisionError, match="its loop raised"):
            first.get(timeout=WITHIN_S)
    with pytest.raises(SupervisionError, match="its loop raised"):
        while True:
            odd.hello.call_one().get(timeout=WITHIN_S)
    eventually(lambda: faults, "the program is told")
    eventually(lambda: path.exists() and path.read_text().count("\n") == 1, "the clean-up ran")
    odd.stop().get(timeout=WITHIN_S)


class Descriptors(Actor):
    """Uses up what its process may open, until it is told to give it back."""

    @endpoint
    def take_all(self, taken: str, give_back: str) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        descriptors = []
        with suppress(OSError):
            while True:
                descriptors.append(os.open(os.devnull, os.O_RDONLY))
        os.mkdir(taken)
        while not os.path.exists(give_back):
            time.sleep(0.002)
        for descriptor in descriptors:
            os.close(descriptor)


def test_an_actor_that_can_get_no_event_loop_says_so(
    spawn_procs: Callable[..., ProcMesh], faults: Faults, tmp_path: Path
) -> None:
    taken, give_back = tmp_path / "taken", tmp_path / "give_back"
    procs = spawn_procs()
    procs.spawn("imports", Async).echo.call_one(1).get(timeout=WITHIN_S)
    descriptors = procs.spawn("descriptors", Descriptors)
    given_back = descriptors.take_all.call_one(str(taken), str(give_back))
    eventually(taken.exists, "no descriptor is left")
    late = procs.spawn("late", Async)
    with pytest.raises(ActorError, match="Too many open files"):
        late.initialized.get(timeout=WITHIN_S)
    with pytest.raises(SupervisionError, match="Too many open files"):
        late.echo.call_one(1).get(timeout=WITHIN_S)
    give_back.touch()
    given_back.get(timeout=WITHIN_S)
    assert procs.spawn("later", Async).echo.call_one(1).get(timeout=WITHIN_S) == 1
    eventually(lambda: faults, "the program is told")


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_a_callback_that_raises_does_not_keep_others_from_running(
    one: ProcMesh, error: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    echo = one.spawn("echo", Echo)
    gone_on = threading.Event()

    def fail(_: object) -> None:
        raise error("from a callback")

    echo.echo.call_one(1).add_done_callback(fail)
    echo.echo.call_one(2).add_done_callback(lambda _: gone_on.set())
    assert gone_on.wait(WITHIN_S)
    assert "from a callback" in capsys.readouterr().err


class Slow(Actor):
    """Notes when its constructor begins, which ends once a file exists."""

    def __init__(self, begun: str, go_on: str) -> None:
        with open(begun, "a") as file:
            file.write("begun\n")
        while not os.path.exists(go_on):
            time.sleep(0.002)
        self.calls = 0

    @endpoint
    def count(self) -> int:
        self.calls += 1
        return self.calls


def test_respawns_that_overlap_are_one_and_all_are_answered(one: ProcMesh, tmp_path: Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    go_on.touch()
    slow = one.spawn("slow", Slow, str(begun), str(go_on))
    assert slow.count.call_one().get(timeout=WITHIN_S) == 1
    go_on.unlink()
    first = slow.respawn([0])
    eventually(lambda: begun.read_text().count("\n") == 2, "the first respawn is in its constructor")
    others = [slow.respawn([0]), slow.respawn(), slow.respawn([0])]
    one.spawn("echo", Echo).pid.call_one().get(timeout=WITHIN_S)  # what was sent before it is there, too
    assert not any(respawned.done() for respawned in (first, *others)), "they wait for the constructor"
    go_on.touch()
    for respawned in (first, *others):
        assert respawned.get(timeout=WITHIN_S) is None
    assert begun.read_text().count("\n") == 2
    assert slow.count.call_one().get(timeout=WITHIN_S) == 1


def test_a_removed_working_directory_is_why_no_process_starts(run_program: RunProgram, tmp_path: Path) -> None:
    code = """
import os
from monarch.actor import this_host
os.mkdir("gone"), os.chdir("gone"), os.rmdir("../gone")
try:
    this_host().spawn_procs()
except FileNotFoundError as error:
    print(error)
os.chdir("/")
this_host().spawn_procs().initialized.get()
"""
    done = run_program("-c", code)
    assert done.returncode == 0, done.stderr
    assert "was removed; change to one that exists first" in done.stdout


SLEEPER = """
import os, signal, sys, threading, time
from monarch.actor import Actor, endpoint, this_host

class Sleeper(Actor):
    @endpoint
    def sleep(self, path=os.devnull):
        open(path, "w").close()
        time.sleep(600)
    @endpoint
    def fail(self):
        raise ValueError("nobody handles this")
    def __cleanup__(self, exc):
        open("cleaning", "w").close()
        time.sleep(600)
"""


def test_one_more_ctrl_c_at_the_end_of_a_program_prints_nothing(tmp_path: Path) -> None:
    environment, mark = marked_environment()
    code = f"{SLEEPER}\nthis_host().spawn_procs().spawn('s', Sleeper).initialized.get()"
    program = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    with program:
        eventually((tmp_path / "cleaning").exists, "the program is at its end")
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=WITHIN_S)
    assert errors == ""
    assert_gone(lambda: marked_processes(mark), "after the second Ctrl-C")


def test_a_daemon_thread_that_waits_at_the_end_of_the_program_is_not_heard_of(run_program: RunProgram) -> None:
    code = f"""{SLEEPER}
sleeper = this_host().spawn_procs().spawn('s', Sleeper)
threading.Thread(target=lambda: sleeper.sleep.call_one("begun").get(), daemon=True).start()
while not os.path.exists("begun"):
    time.sleep(0.01)
"""
    done = run_program("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


FAIL_FROM_THREAD = f"""{SLEEPER}
def fail():
    failing = this_host().spawn_procs().spawn("failing", Sleeper)
    failing.initialized.get()
    blocked.wait()
    failing.fail.broadcast()

blocked = threading.Event()
threading.Thread(target=fail, daemon=True).start()
"""


def test_a_failure_ends_a_program_whose_client_was_started_in_another_thread(run_program: RunProgram) -> None:
    code = f"""{FAIL_FROM_THREAD.replace("time.sleep(600)", "pass")}
try:
    blocked.set()
    time.sleep(600)
finally:
    print("ended")
"""
    done = run_program("-c", code, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "ValueError: nobody handles this" in done.stderr
    assert "KeyboardInterrupt" not in done.stderr
    # Its own code was reached; the process that is ended in any case, after a while, says nothing.
    assert done.stdout == "ended\n"


@pytest.mark.long  # A terminal's timing decides what is typed when; see also test_programs.
@pytest.mark.parametrize("at_prompt", [True, False])
def test_the_interactive_interpreter_lives_on_after_a_failure(at_prompt: bool) -> None:
    environment, mark = marked_environment()
    ours, theirs = pty.openpty()
    interpreter = subprocess.Popen(
        [sys.executable, "-q"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "dumb"},
        cwd=Path(__file__).parent,
    )
    os.close(theirs)
    output = b""

    def read_until(text: str) -> None:
        nonlocal output
        while text.encode() not in output:
            output += os.read(ours, 4096)

    with interpreter, contextlib.ExitStack() as killed:
        killed.callback(interpreter.kill)
        for line in [
            "import time",
            "from monarch.actor import this_host",
            "from sample_actors import BadStart",
            "failing = this_host().spawn_procs().spawn('failing', BadStart, ValueError('nobody ' + 'handles this'))"
            + ("" if at_prompt else "; time.sleep(600)"),
        ]:
            os.write(ours, f"{line}\n".encode())
        read_until("failures that it handles")  # the last of what is printed
        if not at_prompt:
            read_until("interrupted by a failure that nobody handled")
        # A line that is typed in the moment of the failure may go under; the interpreter goes on.
        while b"42 lives" not in output:
            os.write(ours, b"print(6 * 7, 'lives')\n")
            while b"42 lives" not in output and select.select([ours], [], [], 1)[0]:
                output += os.read(ours, 4096)
        os.write(ours, b"exit()\n")
        with suppress(OSError):  # the other end is closed
            while True:
                output += os.read(ours, 4096)
        assert interpreter.wait(timeout=WITHIN_S) == 0
    os.close(ours)
    assert_gone(lambda: marked_processes(mark), "after the interpreter's end")
