"""Actors that take slowly what others send fast."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from monarch.actor import Actor, MeshFailure, Port, endpoint

WINDOW = 1 << 20
HARD_LIMIT = 32 << 20
SIZE = 32 << 10

# What one message of that size costs is a little more: what it is pickled in, and what a waiting message costs.
AT_LEAST, AT_MOST = WINDOW // (SIZE + 1024), WINDOW // SIZE


class Gate:
    """Keeps an actor in another process busy until it is opened here."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / f"gate-{os.urandom(4).hex()}")
        os.mkfifo(self.path)

    def open(self, times: int = 1) -> None:
        for _ in range(times):
            with open(self.path, "wb"):
                pass


def pass_gate(path: str) -> None:
    with open(path, "rb") as gate:
        gate.read()


class Taker(Actor):
    """Serves one message after the other."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.largest = 0

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def hold(self, gate: str) -> None:
        pass_gate(gate)

    @endpoint
    def take(self, sender: str, number: int, data: bytes) -> None:
        self.seen.append((sender, number))

    @endpoint
    def measure(self, number: int, data: bytes) -> None:
        self.seen.append(("", number))
        if number % 16 == 0:
            self.largest = max(self.largest, pss(os.getpid()))

    @endpoint
    def taken(self) -> list[tuple[str, int]]:
        return self.seen

    @endpoint
    def largest_pss(self) -> int:
        return self.largest

    @endpoint
    def flood(self, other: Any, name: str, count: int, size: int) -> None:
        for number in range(count):
            other.take.broadcast(name, number, bytes(size))

    @endpoint
    def flood_port(self, port: Port[bytes], count: int, size: int) -> None:
        for number in range(count):
            port.send(number.to_bytes(4, "big") + bytes(size))


class AsyncTaker(Actor):
    """The same with an event loop, still one message at a time."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    @endpoint
    async def never(self) -> None:
        await asyncio.Event().wait()

    @endpoint
    async def take(self, sender: str, number: int, data: bytes) -> None:
        self.seen.append((sender, number))

    @endpoint
    async def taken(self) -> list[tuple[str, int]]:
        return self.seen

    @endpoint
    async def flood(self, other: Any, name: str, count: int, size: int) -> None:
        for number in range(count):
            other.take.broadcast(name, number, bytes(size))

    @endpoint
    async def ask_for_flood(self, other: Any, myself: Any, count: int, size: int) -> None:
        """Waits for somebody who floods it meanwhile."""
        await other.flood.call_one(myself, "asked", count, size)


class Owner(Actor):
    """Owns an actor in another process, and hears of its end while its own queue is full."""

    def __init__(self, procs: Any, port: Port[str]) -> None:
        self.child = procs.spawn("child", Taker)
        self.port = port

    @endpoint
    async def child_pid(self) -> int:
        return await self.child.pid.call_one()

    @endpoint
    async def never(self) -> None:
        await asyncio.Event().wait()

    @endpoint
    async def take(self, sender: str, number: int, data: bytes) -> None:
        pass

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.port.send(failure.name)
        return True


class Sending:
    """A thread that sends, and how far it has come."""

    def __init__(self, send: Callable[[int], object], count: int) -> None:
        self.sent = 0
        self.error: BaseException | None = None
        self._progress = threading.Condition()
        self._send = send
        self._count = count
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for number in range(self._count):
                self._send(number)
                with self._progress:
                    self.sent += 1
                    self._progress.notify_all()
        except BaseException as error:
            self.error = error

    def stops_within(self, at_least: int, at_most: int) -> bool:
        """Whether it sends so much and then waits."""
        with self._progress:
            assert self._progress.wait_for(lambda: self.sent >= at_least, 30)
            return not self._progress.wait_for(lambda: self.sent > at_most, 0.2)

    def join(self) -> None:
        """Until it has sent everything."""
        error = self.outcome()
        if error is not None:
            raise error

    def outcome(self) -> BaseException | None:
        """What it raised in the end."""
        self._thread.join(30)
        assert not self._thread.is_alive(), self.sent
        return self.error


def pss(pid: int) -> int:
    """Memory of a process in bytes, its share of what it shares."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    raise ValueError(f"/proc/{pid}/smaps_rollup has no Pss")
