"""Actors that tests spawn. A module of its own, light to import, so that workers import it by name."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import Any

from monarch.actor import (
    Actor,
    MeshFailure,
    concurrent_endpoint,
    context,
    current_rank,
    current_size,
    endpoint,
    this_host,
    this_proc,
)


class Tally(Actor):
    def __init__(self, start: int) -> None:
        self.value = start

    @endpoint
    def add(self, n: int) -> int:
        self.value += n
        return self.value

    def reset(self) -> None:
        self.value = 0


class Where(Actor):
    def __init__(self) -> None:
        self.born = dict(context().actor_instance.rank)

    @endpoint
    def here(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        return self.born, dict(current_rank()), current_size()

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def argv(self) -> tuple[list[str], str, list[str]]:
        return sys.argv, os.getcwd(), sys.path


class Echo(Actor):
    """Answers what it is asked; sync."""

    @endpoint
    def echo(self, value: Any, *more: Any, key: Any = None) -> Any:
        return value

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def thread(self) -> tuple[str, int, bool]:
        return (
            threading.current_thread().name,
            threading.get_ident(),
            threading.current_thread() is threading.main_thread(),
        )

    @endpoint
    def loop_is_visible(self) -> bool:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    @endpoint
    def run_loop(self) -> int:
        return asyncio.run(asyncio.sleep(0, 7))

    @endpoint
    def fail(self, error: BaseException) -> None:
        raise error

    @endpoint
    def fail_at(self, rank: int, error: Exception) -> int:
        if current_rank().rank == rank:
            raise error
        return current_rank().rank

    @endpoint
    def lambda_result(self) -> Any:
        return threading.Lock()

    @endpoint
    def exit(self, status: int) -> None:
        os._exit(status)

    @endpoint
    def kill(self, number: int) -> None:
        os.kill(os.getpid(), number)

    @endpoint
    def leave(self) -> None:
        sys.exit(3)


class Async(Actor):
    """The same, async, with one thing at a time."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.opened = asyncio.Event()

    @endpoint
    async def echo(self, value: Any) -> Any:
        return value

    @endpoint
    async def step(self, name: str) -> None:
        self.log.append(f"start {name}")
        for _ in range(5):
            await asyncio.sleep(0)
        self.log.append(f"end {name}")

    @endpoint
    async def seen(self) -> list[str]:
        return self.log

    @endpoint
    async def wait_for_ever(self) -> None:
        self.log.append("waits")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise

    @endpoint
    async def cancel_itself(self) -> None:
        raise asyncio.CancelledError("of its own")

    @concurrent_endpoint
    async def pass_through(self) -> str:
        await self.opened.wait()
        return "through"

    @endpoint
    async def lift(self) -> None:
        self.opened.set()

    @endpoint
    async def ask_itself(self, me: Any) -> None:
        await me.echo.call_one(1)


class Mixed(Actor):
    """Async endpoints and plain ones in one actor."""

    @endpoint
    async def async_thread(self) -> tuple[int, bool]:
        return threading.get_ident(), _has_loop()

    @endpoint
    def sync_thread(self) -> tuple[int, bool]:
        return threading.get_ident(), _has_loop()

    @endpoint
    def sync_runs_loop(self) -> int:
        return asyncio.run(asyncio.sleep(0, 5))

    @endpoint
    def both(self, value: int) -> int:
        return self.double(value) + 1  # type: ignore[operator, no-any-return]

    @endpoint
    def double(self, value: int) -> int:
        return 2 * value


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Gate(Actor):
    """Sync; waits until a file exists, so that a test decides when it goes on."""

    def __init__(self) -> None:
        self.runs = 0

    @endpoint
    def wait_for(self, path: str) -> str:
        self.runs += 1
        open(f"{path}.started", "w").close()
        while not os.path.exists(path):
            time.sleep(0.002)
        return "done"

    @endpoint
    def count(self) -> int:
        return self.runs

    @endpoint
    def ask_itself(self, me: Any) -> int:
        return me.count.call_one().get()  # type: ignore[no-any-return]

    @endpoint
    def busy_for_ever(self, path: str) -> None:
        open(f"{path}.started", "w").close()
        while True:
            time.sleep(0.01)


class BadStart(Actor):
    def __init__(self, error: Exception) -> None:
        raise error

    @endpoint
    def hello(self) -> str:
        return "hello"


class Notes(Actor):
    """Writes down how it ends."""

    def __init__(self, path: str) -> None:
        self.path = path

    @endpoint
    def hello(self) -> str:
        return "hello"

    @endpoint
    def fail(self) -> None:
        raise ValueError("on purpose")

    def __cleanup__(self, exc: Exception | None) -> None:
        with open(self.path, "a") as file:
            file.write(f"{type(exc).__name__}:{exc}\n")


class AsyncNotes(Actor):
    def __init__(self, path: str) -> None:
        self.path = path

    @endpoint
    async def hello(self) -> str:
        return "hello"

    async def __cleanup__(self, exc: Exception | None) -> None:
        await asyncio.sleep(0)
        with open(self.path, "a") as file:
            file.write(f"{type(exc).__name__}:{exc}\n")


class BadEnd(Actor):
    @endpoint
    def hello(self) -> str:
        return "hello"

    def __cleanup__(self, exc: Exception | None) -> None:
        raise ValueError("bad end")


class OwnerOfBadEnds(Actor):
    @endpoint
    def stop_them(self) -> str:
        procs = this_host().spawn_procs()
        procs.spawn("bad", BadEnd).hello.call_one().get()
        error = procs.stop().exception(timeout=30)
        return "bad end" if isinstance(error, ValueError) and "bad end" in str(error) else repr(error)


class Left(Actor):
    @endpoint
    async def play(self, other: Right, rounds: int) -> int:
        n = 0
        while n < rounds:
            n = await other.hit.call_one(n)
        return n


class Right(Actor):
    @endpoint
    async def hit(self, n: int) -> int:
        return n + 1


class Nested(Actor):
    """Spawns for itself."""

    def __init__(self, handles: bool = True) -> None:
        self.handles = handles
        self.failures: list[MeshFailure] = []

    @endpoint
    def own(self) -> Any:
        self.procs = this_host().spawn_procs(per_host={"gpus": 2}, name="nested")
        self.workers = self.procs.spawn("owned", Echo)
        self.workers.pid.call().get()
        return self.workers

    @endpoint
    def own_neighbour(self) -> int:
        return this_proc().spawn("neighbour", Echo).pid.call_one().get()  # type: ignore[no-any-return]

    @endpoint
    def seen(self) -> list[MeshFailure]:
        return self.failures

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.failures.append(failure)
        return self.handles


class AsyncNested(Nested):
    @endpoint
    async def wait(self) -> None:
        await asyncio.sleep(0)

    async def __supervise__(self, failure: MeshFailure) -> bool:  # type: ignore[override]
        self.failures.append(failure)
        return self.handles


class Crowded(Actor):
    """Endpoints named like attributes of a mesh."""

    @endpoint
    def size(self) -> str:
        return "endpoint"

    @endpoint
    def extent(self) -> str:
        return "endpoint too"


class TwoArguments(Exception):
    """Cannot be rebuilt from its `args`."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


class Unpicklable(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class RaisesOddly(Actor):
    @endpoint
    def unpicklable(self) -> None:
        raise Unpicklable("holds a lock")

    @endpoint
    def two(self) -> None:
        raise TwoArguments(1, 2)


class Shouter(Actor):
    """Has a plain method beside its endpoint."""

    @endpoint
    def shout(self, text: str) -> str:
        return text.upper()

    def whisper(self, text: str) -> str:
        return text.lower()


class Derived(Echo):
    """Has the endpoints of its base, and no constructor."""


class Unbuildable:
    """Pickles, and raises where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise ValueError("cannot be rebuilt")


class SelfStop(Actor):
    @endpoint
    def leave_in_order(self, when: str) -> str:
        while not os.path.exists(when):
            time.sleep(0.002)
        context().actor_instance.stop("done here")
        return "goodbye"

    @endpoint
    def hello(self) -> str:
        return "hello"


class Environment(Actor):
    @endpoint
    def get(self, name: str) -> str | None:
        return os.environ.get(name)


def refuse() -> None:
    raise ValueError("not on my watch")


def set_variable() -> None:
    os.environ["MONARCH_TEST_VALUE"] = "set"


async def set_variable_async() -> None:
    await asyncio.sleep(0)
    set_variable()
