"""Whole programs, each a client of its own: how they are started, and how they end."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import assert_gone, eventually, marked_environment, marked_processes

RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]

TRAINER = """
from monarch.actor import Actor, current_rank, endpoint, this_host

class Trainer(Actor):
    @endpoint
    def train(self, step: int):
        return current_rank().rank, step
"""

RUN = """
procs = this_host().spawn_procs({"gpus": 2})
print(sorted(procs.spawn("trainers", Trainer).train.call(step=3).get().values()))
"""

ANSWER = "[(0, 3), (1, 3)]\n"


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


# --- ways to start ----------------------------------------------------------------------------------------------------


def test_script_without_main_guard(run_program: RunProgram, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TRAINER + RUN)
    assert succeeded(run_program("program.py")) == ANSWER


def test_script_with_main_guard(run_program: RunProgram, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{TRAINER}\nif __name__ == '__main__':\n{textwrap.indent(RUN, '    ')}")
    assert succeeded(run_program("program.py")) == ANSWER


def test_script_in_another_directory_with_modules_beside_it(run_program: RunProgram, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "beside.py").write_text(TRAINER)
    (tmp_path / "code" / "program.py").write_text(f"from beside import Trainer, this_host\n{RUN}")
    # Would be imported by the interpreter's own start, were the working directory on its path.
    (tmp_path / "signal.py").write_text("raise ImportError('the wrong signal')")
    assert succeeded(run_program("code/program.py")) == ANSWER


def test_command_line_program(run_program: RunProgram) -> None:
    assert succeeded(run_program("-c", TRAINER + RUN)) == ANSWER


def test_module_run_by_name(run_program: RunProgram, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "trainer.py").write_text(TRAINER)
    (tmp_path / "package" / "__main__.py").write_text(f"from .trainer import Trainer, this_host\n{RUN}")
    assert succeeded(run_program("-m", "package")) == ANSWER


def test_asyncio_program(run_program: RunProgram, tmp_path: Path) -> None:
    body = """
    import asyncio

    async def main():
        async with this_host().spawn_procs({"gpus": 2}) as procs:
            trainers = procs.spawn("trainers", Trainer)
            first, second = await asyncio.gather(trainers.train.call(step=3), trainers.train.call(step=4))
            print(sorted(first.values()))

    asyncio.run(main())
    """
    (tmp_path / "program.py").write_text(TRAINER + textwrap.dedent(body))
    assert succeeded(run_program("-W", "error", "program.py")) == ANSWER


def test_interactive_interpreter() -> None:
    environment, mark = marked_environment()
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-i", "-q"], stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, "TERM": "dumb"}
    ) as interpreter:
        os.close(theirs)
        for line in [*(TRAINER + "\n" + RUN).splitlines(), "exit()"]:
            os.write(ours, f"{line}\n".encode())
        output = b""
        while True:
            try:
                output += os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
        interpreter.wait(timeout=60)
    os.close(ours)
    assert ANSWER.strip() in output.decode(), output.decode()
    assert_gone(lambda: marked_processes(mark), "after the interpreter's end")


@pytest.mark.parametrize("count", [1, 8])
def test_processes_are_what_was_asked_for(run_program: RunProgram, tmp_path: Path, count: int) -> None:
    (tmp_path / "program.py").write_text(TRAINER + RUN.replace("2", str(count)))
    assert succeeded(run_program("program.py")) == f"{[(rank, 3) for rank in range(count)]}\n"


@pytest.mark.long
def test_64_processes(run_program: RunProgram, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TRAINER + RUN.replace("2", "64"))
    assert succeeded(run_program("program.py")) == f"{[(rank, 3) for rank in range(64)]}\n"


def test_a_worker_resembles_the_program(run_program: RunProgram, tmp_path: Path) -> None:
    body = """
    import json, os, sys
    from monarch.actor import Actor, endpoint, this_host

    class Mirror(Actor):
        @endpoint
        def look(self):
            names = ("PYTHONPATH", "PYTHONSAFEPATH", "MARK")
            return sys.argv, os.getcwd(), sys.path, [os.environ.get(name) for name in names]

    os.environ["MARK"] = "set by the program"
    mine = Mirror().look()
    theirs = this_host().spawn_procs().spawn("m", Mirror).look.call_one().get()
    print(json.dumps([mine, theirs]))
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(body))
    mine, theirs = json.loads(succeeded(run_program("program.py", "an argument")))
    assert mine == theirs


def test_workers_can_be_told_from_the_keeper_by_their_command_line(run_program: RunProgram) -> None:
    body = """
    import os
    procs = this_host().spawn_procs({"gpus": 2})
    procs.initialized.get()
    lines = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = open(f"/proc/{entry}/environ").read()
            line = open(f"/proc/{entry}/cmdline").read().replace(chr(0), " ")
        except OSError:
            continue
        if os.environ["MONARCH_TEST_PROGRAM"] in environment and int(entry) != os.getpid():
            lines.append("-m monarch._src.actor.bootstrap_main" in line)
    print(sorted(lines))
    """
    assert succeeded(run_program("-c", TRAINER + textwrap.dedent(body))) == "[False, True, True]\n"


# --- ways to end ------------------------------------------------------------------------------------------------------

CLEANUP = """
import os, sys, time
from monarch.actor import Actor, endpoint, this_host

class Notes(Actor):
    def __init__(self, path):
        self.path = path
    @endpoint
    def hello(self):
        return os.getpid()
    @endpoint
    def wait(self):
        time.sleep(600)
    def __cleanup__(self, exc):
        with open(self.path, "a") as file:
            file.write(f"{exc}|")

notes = this_host().spawn_procs({"gpus": 2}).spawn("notes", Notes, "notes.txt")
notes.hello.call().get()
"""


@pytest.mark.parametrize(
    ("last", "status"),
    [("", 0), ("sys.exit(5)", 5), ("raise ValueError('on purpose')", 1), ("os.kill(os.getpid(), 2)", -2)],
)
def test_the_end_of_the_program_cleans_up_and_keeps_its_exit_status(
    run_program: RunProgram, tmp_path: Path, last: str, status: int
) -> None:
    done = run_program("-c", f"{CLEANUP}\n{last}")
    assert done.returncode == status, done.stderr
    assert (tmp_path / "notes.txt").read_text() == "None|None|"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_program_ends_everything(tmp_path: Path, number: signal.Signals) -> None:
    environment, mark = marked_environment()
    program = subprocess.Popen(
        [sys.executable, "-c", f"{CLEANUP}\nprint('ready', flush=True)\nnotes.slice(gpus=0).wait.call_one().get()"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(number)
        program.wait(timeout=20)
    assert program.returncode == -number
    assert_gone(lambda: marked_processes(mark), f"after {number.name}")


BLOCKED = {
    "sleep": "time.sleep(600)",
    "get": "this_host().spawn_procs().spawn('s', Sleeper).sleep.call_one().get()",
    "lock": "lock = __import__('threading').Lock(); lock.acquire(); lock.acquire()",
    "join": "t = __import__('threading').Thread(target=time.sleep, args=(600,), daemon=True); t.start(); t.join()",
    "asyncio": "import asyncio; asyncio.run(asyncio.sleep(600))",
    "select": "__import__('select').select([], [], [])",
}

FAULT = """
import os, time
from monarch.actor import Actor, endpoint, this_host

class Sleeper(Actor):
    @endpoint
    def sleep(self):
        time.sleep(600)
    @endpoint
    def fail(self):
        raise ValueError("nobody handles this")

failing = this_host().spawn_procs(name="p").spawn("failing", Sleeper)
failing.fail.broadcast()
"""


@pytest.mark.parametrize("how", BLOCKED)
def test_a_failure_that_nobody_handles_ends_a_program_that_blocks(run_program: RunProgram, how: str) -> None:
    done = run_program("-c", FAULT + BLOCKED[how], timeout=30)
    assert done.returncode == 1, done.stderr
    assert "ValueError: nobody handles this" in done.stderr
    assert done.stderr.count("a failure that nobody handled ends the program") == 1
    assert "hint: " in done.stderr


def test_the_end_by_a_failure_is_explained_once_by_its_first_cause(run_program: RunProgram, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("""
import time
from monarch.actor import Actor, endpoint, this_host

class Helper(Actor):
    @endpoint
    def hello(self):
        return "hello"
    @endpoint
    def fail(self):
        raise ValueError("the first cause")

class Owner(Helper):
    @endpoint
    def own(self):
        procs = this_host().spawn_procs(name="deep")
        procs.spawn("bystander", Helper).hello.call_one().get()
        procs.spawn("culprit", Helper).fail.broadcast()

this_host().spawn_procs(name="shallow").spawn("owner", Owner).own.call_one().get()
time.sleep(600)
""")
    done = run_program("program.py", timeout=60)
    assert done.returncode == 1
    [block] = done.stderr.split("monarch: a failure that nobody handled ends the program")[1:]
    for part in (
        "did not handle a supervision event from its child: culprit-",
        "endpoint culprit.fail raised ValueError: the first cause",
        'program.py", line 11, in fail\n    raise ValueError("the first cause")',
        "Stopped because of it: ",
        "bystander",
        "hint: ",
    ):
        assert block.count(part) >= 1, (part, block)
    assert block.count("Traceback (most recent call last)") == 1, block


def test_a_failure_does_not_garble_what_the_program_says_at_its_end(run_program: RunProgram) -> None:
    code = f"{FAULT}\ntry:\n    {BLOCKED['sleep']}\nfinally:\n    raise ValueError('x' * 100_000)"
    done = run_program("-c", code, timeout=30)
    assert done.returncode == 1
    assert "lost sys.stderr" not in done.stderr
    assert done.stderr.endswith("x\n")


def test_a_hook_that_returns_lets_the_program_go_on(run_program: RunProgram) -> None:
    body = """
    import threading
    import monarch.actor
    told = threading.Event()
    monarch.actor.unhandled_fault_hook = lambda failure: told.set()
    failing.fail.broadcast()
    told.wait()
    print("goes on")
    """
    program = FAULT.replace("failing.fail.broadcast()\n", "") + textwrap.dedent(body)
    assert succeeded(run_program("-c", program)) == "goes on\n"


def test_a_failure_that_is_known_at_the_end_of_the_program_is_its_status(run_program: RunProgram) -> None:
    body = """
    import threading
    import monarch.actor
    told = threading.Event()
    def hook(failure):
        told.set()
        threading.main_thread().join()
        raise KeyError("after the end")
    monarch.actor.unhandled_fault_hook = hook
    failing.fail.broadcast()
    told.wait()
    """
    done = run_program("-c", FAULT.replace("failing.fail.broadcast()\n", "") + textwrap.dedent(body), timeout=60)
    assert done.returncode == 1
    assert "after the end" in done.stderr


def test_a_hook_that_raises_ends_the_program(run_program: RunProgram) -> None:
    body = """
    import monarch.actor
    def hook(failure):
        raise KeyError("of the hook")
    monarch.actor.unhandled_fault_hook = hook
    failing.fail.broadcast()
    time.sleep(600)
    """
    done = run_program("-c", FAULT.replace("failing.fail.broadcast()\n", "") + textwrap.dedent(body), timeout=30)
    assert done.returncode == 1
    assert "of the hook" in done.stderr


def test_a_fork_of_the_program_is_told_at_once_and_harms_nothing(run_program: RunProgram) -> None:
    body = """
    import os
    trainers = this_host().spawn_procs({"gpus": 2}).spawn("trainers", Trainer)
    trainers.train.call(1).get()
    sys = __import__("sys")
    child = os.fork()
    if child == 0:
        for use in (lambda: trainers.train.call(1), lambda: this_host().spawn_procs()):
            try:
                use()
            except RuntimeError as error:
                print("child:", error, flush=True)
        sys.exit(7)
    print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    print(sorted(trainers.train.call(step=3).get().values()))
    """
    lines = succeeded(
        run_program("-W", "ignore::DeprecationWarning", "-c", TRAINER + textwrap.dedent(body))
    ).splitlines()
    assert len(lines) == 4
    assert all(line.startswith("child: ") and "fork" in line for line in lines[:2])
    assert lines[2:] == ["status 7", ANSWER.strip()]


def test_a_sigterm_to_a_worker_runs_its_cleanup_and_is_told(run_program: RunProgram, tmp_path: Path) -> None:
    body = """
    import signal
    import monarch.actor
    monarch.actor.unhandled_fault_hook = lambda failure: None
    os.kill(notes.hello.call().get().get(0), signal.SIGTERM)
    try:
        while True:
            notes.slice(gpus=0).hello.call_one().get()
    except Exception as error:
        print(type(error).__name__)
    """
    assert succeeded(run_program("-c", CLEANUP + textwrap.dedent(body))) == "SupervisionError\n"
    assert (tmp_path / "notes.txt").read_text() == "None|None|"


def test_importing_is_light(run_program: RunProgram) -> None:
    heavy = ["asyncio", "cloudpickle", "inspect", "numpy", "torch", "typing", "logging", "threading", "re"]
    code = f"import monarch.actor, sys; print([m for m in {heavy} if m in sys.modules])"
    # Without `site`, whose customisations may import anything.
    assert succeeded(run_program("-S", "-c", code)) == "[]\n"


def test_ctrl_c_is_answered_while_a_call_is_waited_for(tmp_path: Path) -> None:
    environment, mark = marked_environment()
    code = f"""{CLEANUP}
try:
    print("ready", flush=True)
    notes.slice(gpus=0).wait.call_one().get()
except KeyboardInterrupt:
    print(len(notes.slice(gpus=1).hello.call().get()), flush=True)
    os._exit(0)
"""
    program = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline() == "1\n"
        assert program.wait(timeout=20) == 0
    assert_gone(lambda: marked_processes(mark), "after os._exit")


def test_nothing_is_left_in_the_temporary_directory(run_program: RunProgram, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    environment, _ = marked_environment()
    code = TRAINER + RUN
    done = run_program("-c", code, env={**environment, "TMPDIR": str(place), "XDG_RUNTIME_DIR": str(place)})
    assert succeeded(done) == ANSWER
    eventually(lambda: not list(place.iterdir()), f"{list(place.iterdir())} is gone")


def test_a_process_that_an_actor_forks_ends_by_sigterm_like_any_other(
    run_program: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    program = tmp_path / "forks.py"
    program.write_text("""
import multiprocessing, select
from monarch.actor import Actor, endpoint, this_host

def begin_and_wait(begun):
    begun.set()
    while True:
        select.select([], [], [], 0.1)  # a signal that comes right before a wait is handled after it

class Parent(Actor):
    @endpoint
    def end_a_child(self):
        forks = multiprocessing.get_context("fork")
        begun = forks.Event()
        child = forks.Process(target=begin_and_wait, args=(begun,))
        child.start()
        begun.wait(20)
        child.terminate()
        child.join(20)
        return child.exitcode

if __name__ == "__main__":
    print(this_host().spawn_procs().spawn("parent", Parent).end_a_child.call_one().get())
""")
    done = run_program("-W", "ignore::DeprecationWarning", str(program))
    assert done.stdout == "-15\n"
    assert done.stderr == ""
