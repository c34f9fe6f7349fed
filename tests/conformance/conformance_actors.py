"""Actors that tests spawn. A module of its own, light to import, so that workers import it by name."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from monarch.actor import (
    Actor,
    MeshFailure,
    Port,
    ProcMesh,
    concurrent_endpoint,
    context,
    current_rank,
    current_size,
    endpoint,
    get_or_spawn_controller,
    this_host,
)


def wait_for(path: str) -> None:
    """Until a test, or another actor, has made the file."""
    while not os.path.exists(path):
        time.sleep(0.002)


class Slow(Actor):
    """Is not there before the file is."""

    def __init__(self, path: str) -> None:
        wait_for(path)

    @endpoint
    def hello(self) -> str:
        return "hello"


class Overlap(Actor):
    """Counts how many of its calls are under way at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.met = asyncio.Event()

    @endpoint
    async def step(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(5):
            await asyncio.sleep(0)
        self.now -= 1

    @endpoint
    async def most_at_once(self) -> int:
        return self.most

    @concurrent_endpoint
    async def meet(self) -> None:
        """Returns once two of it run."""
        self.now += 1
        if self.now == 2:
            self.met.set()
        await self.met.wait()

    @endpoint
    async def ask_itself(self, me: Any) -> None:
        await me.step.call_one()


class Plain(Actor):
    """Sync."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    @endpoint
    def where(self) -> tuple[bool, int, bool]:
        """Whether a loop is visible here, which thread this is, whether it is the main one."""
        try:
            asyncio.get_running_loop()
            looped = True
        except RuntimeError:
            looped = False
        return looped, threading.get_ident(), threading.current_thread() is threading.main_thread()

    @endpoint
    def ranks(self) -> tuple[dict[str, int], dict[str, int]]:
        """Of the message and of the actor."""
        return dict(current_rank()), dict(context().actor_instance.rank)

    @endpoint
    def answer_after_the_next(self, place: str) -> int:
        """The last rank first."""
        rank = current_rank()
        if rank.rank + 1 < rank.extent.nelements:
            wait_for(f"{place}/{rank.rank + 1}")
        Path(place, str(rank.rank)).touch()
        return rank.rank

    @endpoint
    def note(self, value: Any) -> None:
        self.log.append(value)

    @endpoint
    def noted(self) -> list[Any]:
        return self.log

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def fail(self, error: Exception) -> None:
        raise error

    @endpoint
    def leave(self) -> None:
        sys.exit(3)

    @endpoint
    def wait(self, path: str) -> str:
        Path(f"{path}.begun").touch()
        wait_for(path)
        return "done"

    @endpoint
    def index(self) -> int:
        return current_rank().rank


class Ending(Plain):
    """Writes down how it ends."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def __cleanup__(self, exc: Exception | None) -> None:
        with open(self.path, "a") as file:
            file.write(f"{exc!r} {self.log}\n")


class Suspended(Actor):
    @endpoint
    async def wait_for_ever(self, path: str) -> None:
        Path(f"{path}.begun").touch()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            Path(f"{path}.cancelled").touch()
            raise


class Owner(Actor):
    """Owns actors; `verdict` says what it makes of their failures."""

    def __init__(self, procs: ProcMesh, verdict: bool | str) -> None:
        self.owned: Any = procs.spawn("owned", Plain)
        self.verdict = verdict
        self.failures: list[MeshFailure] = []

    @endpoint
    def fail_all(self) -> None:
        self.owned.fail.broadcast(ValueError("of the owned"))

    @endpoint
    def told(self) -> list[MeshFailure]:
        return self.failures

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.failures.append(failure)
        if isinstance(self.verdict, str):
            raise KeyError(self.verdict)
        return self.verdict


class Hop(Actor):
    """Passes a port on, as often as there are others."""

    @endpoint
    def pass_on(self, port: Port[Any], value: Any, *others: Any) -> None:
        if others:
            others[0].pass_on.broadcast(port, value, *others[1:])
        elif isinstance(value, Exception):
            port.exception(value)
        else:
            port.send(value)


class AsksLater(Actor):
    """Is given actors that need not be up yet."""

    def __init__(self, others: Any) -> None:
        self.others = others

    @endpoint
    def ask(self) -> list[str]:
        return list(self.others.hello.call().get(timeout=60).values())


class SyncAndAsync(Actor):
    """Mixes kinds."""

    @endpoint
    def plain(self) -> int:
        return threading.get_ident()

    @endpoint
    async def coroutine(self) -> int:
        return threading.get_ident()


class AsyncWithPlainHooks(SyncAndAsync):
    def __cleanup__(self, exc: Exception | None) -> None: ...

    def __supervise__(self, failure: MeshFailure) -> bool:
        return True


class PlainWithAsyncHooks(Plain):
    async def __cleanup__(self, exc: Exception | None) -> None: ...

    async def __supervise__(self, failure: MeshFailure) -> bool:
        return True


class AsksController(Actor):
    """Asks for the named actor of the program."""

    @endpoint
    async def ask(self, name: str) -> tuple[int, int]:
        """What the named actor has counted up to, and in which process."""
        counted: Any = await get_or_spawn_controller(name, Counted)
        return await counted.next.call_one(), await counted.pid.call_one()  # type: ignore[no-any-return]


class Counted(Actor):
    def __init__(self) -> None:
        self.n = 0

    @endpoint
    def next(self) -> int:
        self.n += 1
        return self.n

    @endpoint
    def pid(self) -> int:
        return os.getpid()


class Double(Actor):
    """Stands in for `Plain`."""

    @endpoint
    def index(self) -> int:
        return -1


# --- of the worked examples -------------------------------------------------------------------------------------------


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


class Server(Actor):
    def __init__(self) -> None:
        self.waiting: list[Port[str]] = []

    @endpoint(explicit_response_port=True)
    def wait_for_news(self, port: Port[str]) -> None:
        self.waiting.append(port)

    @endpoint
    def publish(self, text: str) -> int:
        for port in self.waiting:
            port.send(text)
        n, self.waiting = len(self.waiting), []
        return n


class Gate(Actor):
    def __init__(self) -> None:
        self.open = asyncio.Event()

    @concurrent_endpoint
    async def pass_through(self) -> str:
        await self.open.wait()
        return "through"

    @endpoint
    async def lift(self) -> None:
        self.open.set()


class Fragile(Actor):
    @endpoint
    def parse(self, text: str) -> int:
        return int(text)


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


class Worker(Actor):
    def __init__(self, generation: int) -> None:
        self.generation = generation

    @endpoint
    def identify(self) -> tuple[int, int]:
        return self.generation, os.getpid()

    @endpoint
    def fail_at(self, rank: int) -> None:
        if current_rank().rank == rank:
            raise ValueError("on purpose")


class Keeper(Actor):
    """Launches a crew, and another one whenever that fails."""

    def __init__(self, width: int) -> None:
        self.width, self.gen = width, -1
        self._launch()

    def _launch(self) -> None:
        self.gen += 1
        self.procs = this_host().spawn_procs(per_host={"w": self.width}, name=f"gen{self.gen}")
        self.crew: Any = self.procs.spawn("crew", Worker, self.gen)

    async def __supervise__(self, failure: MeshFailure) -> bool:  # type: ignore[override]
        if failure.mesh_name.rsplit("-", 1)[0] != "crew":
            return True
        dead = self.procs
        await dead.stop("generation lost")
        self._launch()
        return True

    @endpoint
    async def query(self) -> list[tuple[int, int]]:
        return list((await self.crew.identify.call()).values())

    @endpoint
    async def break_one(self) -> None:
        self.crew.fail_at.broadcast(0)


class Counter(Actor):
    def __init__(self) -> None:
        self.n = 0

    @endpoint
    async def next(self) -> int:
        self.n += 1
        return self.n


class Customer(Actor):
    @endpoint
    async def fetch(self) -> int:
        counter = await get_or_spawn_controller("counter", Counter)
        return await counter.next.call_one()
