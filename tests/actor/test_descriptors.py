"""Descriptors and memory of the runtime: forks do not touch them, ends give them back, odd bytes pass through."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import eventually
from monarch.actor import Actor, MeshFailure, ProcMesh, SupervisionError, endpoint
from sample_actors import Async, Echo

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in Linux's /proc")

Run = Callable[..., subprocess.CompletedProcess[str]]


class Counts(Actor):
    @endpoint
    def descriptors(self) -> int:
        gc.collect()  # an event loop and what it waits for know each other
        return len(os.listdir("/proc/self/fd"))


def own_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_an_async_actor_gives_its_descriptors_back(one: ProcMesh) -> None:
    counts = one.spawn("counts", Counts)

    def spawn_and_stop() -> None:
        actor = one.spawn("async", Async)
        actor.seen.call_one().get(timeout=20)
        actor.stop().get(timeout=20)

    spawn_and_stop()
    before = counts.descriptors.call_one().get()
    for _ in range(20):
        spawn_and_stop()
    eventually(lambda: counts.descriptors.call_one().get() <= before + 2, "the descriptors are given back")


def test_a_killed_process_leaves_no_socket_with_who_called_it(
    spawn_procs: Callable[..., ProcMesh], faults: list[MeshFailure]
) -> None:
    kept = []

    def spawn_and_kill() -> None:
        echo = spawn_procs().spawn("echo", Echo)
        future = echo.pid.call_one()
        os.kill(future.get(timeout=20), signal.SIGKILL)
        with pytest.raises(SupervisionError):
            while True:
                echo.pid.call_one().get(timeout=20)
        kept.append(future)

    spawn_and_kill()
    before = own_descriptors()
    for _ in range(5):
        spawn_and_kill()
    eventually(lambda: own_descriptors() <= before, "the sockets are closed")
    eventually(lambda: len(faults) == 6, "all deaths are told")


def test_a_future_in_a_forked_child_raises_and_leaves_the_childs_sockets_alone(
    run_program: Run, tmp_path: Path
) -> None:
    program = tmp_path / "forks.py"
    program.write_text("""
import os, socket
from monarch.actor import Actor, endpoint, this_host

class Waits(Actor):
    @endpoint
    def go_on(self, path):
        while not os.path.exists(path):
            pass

waits = this_host().spawn_procs().spawn("waits", Waits)
future = waits.go_on.call_one("go")
child = os.fork()
if child == 0:
    pairs = [socket.socketpair() for _ in range(16)]
    for ours, theirs in pairs:
        theirs.send(b"x")
    try:
        future.get()
    except RuntimeError as error:
        assert "was forked" in str(error), error
    else:
        os._exit(1)
    os._exit(0 if all(ours.recv(1, socket.MSG_DONTWAIT) == b"x" for ours, _ in pairs) else 2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
open("go", "w").close()
future.get()
""")
    done = run_program("-W", "ignore::DeprecationWarning", str(program))
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)


def test_an_environment_that_is_not_utf_8_reaches_the_workers(run_program: Run, tmp_path: Path) -> None:
    program = tmp_path / "odd.py"
    program.write_text("""
import os
from monarch.actor import Actor, endpoint, this_host

class Env(Actor):
    @endpoint
    def odd(self):
        return os.environb[b"ODD"]

os.environb[b"ODD"] = bytes([255, 254])
print(this_host().spawn_procs().spawn("env", Env).odd.call_one().get())
""")
    done = run_program(str(program))
    assert done.stdout == "b'\\xff\\xfe'\n", done.stderr
