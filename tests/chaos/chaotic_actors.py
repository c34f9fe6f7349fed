"""Actors and processes that fail in every way there is. A module of its own, so that workers import it by name."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from monarch.actor import Actor, MeshFailure, SupervisionError, endpoint, this_host, this_proc


class Unpicklable(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


def segfault() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def abort() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def run_out_of_memory() -> None:
    """As where the kernel runs out of it: the process is killed in the middle of taking more."""
    hoard = []
    while len(hoard) < 16:
        hoard.append(bytearray(b"x" * (1 << 20)))
    os.kill(os.getpid(), signal.SIGKILL)


def die_here() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# Ends of a process, with the kind of failure and its number.
ENDS: dict[str, tuple[Callable[[], object], str, int]] = {
    "sigkill": (die_here, "signal", signal.SIGKILL),
    "exit": (lambda: os._exit(7), "exit", 7),
    "exit 0": (lambda: os._exit(0), "exit", 0),
    "exit like a shell of the killed": (lambda: os._exit(137), "exit", 137),
    "segfault": (segfault, "signal", signal.SIGSEGV),
    "abort": (abort, "signal", signal.SIGABRT),
    "out of memory": (run_out_of_memory, "signal", signal.SIGKILL),
}


def misbehave(how: str) -> None:
    """Raise or end the process, as named; `""` does nothing."""
    if how in ENDS:
        ENDS[how][0]()
    elif how == "raise":
        raise ValueError("raised on purpose")
    elif how == "raise unpicklable":
        raise Unpicklable("raised on purpose")
    elif how == "sys.exit":
        raise SystemExit(3)
    elif how:
        raise NotImplementedError(how)


class Plan:
    """How an actor misbehaves in its hooks, and whether it handles failures. A value."""

    def __init__(self, init: str = "", supervise: str = "", cleanup: str = "", handles: bool = True) -> None:
        self.init = init
        self.supervise = supervise
        self.cleanup = cleanup
        self.handles = handles


class Fragile(Actor):
    """Fails as planned, or as told; owns more of its kind where it is told to."""

    def __init__(self, plan: Plan = Plan()) -> None:  # noqa: B008
        self.plan = plan
        self.failures: list[MeshFailure] = []
        self.casts = 0
        misbehave(plan.init)

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def do(self, how: str) -> None:
        misbehave(how)

    @endpoint
    def count(self) -> None:
        self.casts += 1

    @endpoint
    def counted(self) -> int:
        return self.casts

    @endpoint
    def wait_for(self, path: str) -> int:
        """Answer once the file is there; `path.<pid>` says that this runs."""
        open(f"{path}.{os.getpid()}", "w").close()
        while not os.path.exists(path):
            time.sleep(0.002)
        return os.getpid()

    @endpoint
    def own(self, name: str, count: int, plan: Plan) -> Any:
        """Spawn processes and actors on them; answers with a reference once they are there."""
        procs = this_host().spawn_procs({"r": count}, name=f"{name} procs")
        mesh: Any = procs.spawn(name, type(self), plan)
        mesh.pid.call().get()
        return mesh

    @endpoint
    def stop_what_has_died(self) -> None:
        """Own a process that dies, and stop it while the news of that waits to be told."""
        procs = this_host().spawn_procs(name="dying")
        with contextlib.suppress(SupervisionError):
            procs.spawn("dying", type(self)).do.call_one("sigkill").get(timeout=30)
        this_proc().initialized.get(timeout=30)  # answered after the news was taken in
        procs.stop().get(timeout=30)

    @endpoint
    def told(self) -> list[MeshFailure]:
        return self.failures

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.failures.append(failure)
        misbehave(self.plan.supervise)
        return self.plan.handles

    def __cleanup__(self, exc: Exception | None) -> None:
        misbehave(self.plan.cleanup)


class AsyncFragile(Fragile):
    """The same with an event loop."""

    @endpoint
    async def until_told(self) -> int:
        while not self.failures:
            await asyncio.sleep(0.001)
        return len(self.failures)

    async def __supervise__(self, failure: MeshFailure) -> bool:  # type: ignore[override]
        return super().__supervise__(failure)

    async def __cleanup__(self, exc: Exception | None) -> None:  # type: ignore[override]
        super().__cleanup__(exc)
