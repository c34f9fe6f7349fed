"""Actors that send to ports. A module of its own, light to import, so that workers import it by name."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from monarch.actor import Actor, Channel, Port, concurrent_endpoint, current_rank, endpoint


class Sender(Actor):
    @endpoint
    def send(self, port: Port[Any], *values: Any) -> None:
        for value in values:
            port.send(value)

    @endpoint
    def send_error(self, port: Port[Any], error: Exception) -> None:
        port.exception(error)

    @endpoint
    def send_here_and_pass_on(self, port: Port[Any], values: list[int]) -> Port[Any]:
        port.send(values)
        return port

    @endpoint
    def pass_on(self, other: Any, port: Port[Any], value: Any) -> None:
        other.send.call_one(port, value).get(timeout=20)

    @endpoint
    def die(self) -> None:
        os._exit(3)

    @endpoint
    def end(self) -> None:
        raise SystemExit(1)

    @endpoint
    def rank(self) -> int:
        return current_rank().rank

    @endpoint
    def fail_at(self, rank: int) -> int:
        if current_rank().rank == rank:
            raise KeyError(rank)
        return current_rank().rank

    def double(self, value: int) -> int:
        return 2 * value

    def answer_later(self, port: Port[int], value: int) -> None:
        port.send(value)

    async def wait(self) -> None:
        raise AssertionError("a plain actor runs no coroutine")


class AsyncReceiver(Actor):
    """Opens channels itself, and waits for them on its event loop."""

    @endpoint
    async def collect(self, sender: Any, values: list[int]) -> list[int]:
        port, receiver = Channel[int].open()
        sender.send.broadcast(port, *values)
        return [await receiver.recv() for _ in values]

    @endpoint
    async def iterate(self, sender: Any, values: list[int]) -> list[int]:
        port, receiver = Channel[int].open()
        sender.send.broadcast(port, *values)
        found = []
        async for value in receiver:
            found.append(value)
            if len(found) == len(values):
                break
        return found

    @endpoint
    async def cancelled_requests_lose_nothing(self, sender: Any) -> list[int]:
        port, receiver = Channel[int].open()
        waiting = [asyncio.ensure_future(receiver.recv().as_asyncio()) for _ in range(3)]
        await asyncio.sleep(0)
        for task in waiting[:2]:
            task.cancel()
        await asyncio.wait(waiting[:2])
        await sender.send.call_one(port, 1, 2)
        return [await waiting[2], await receiver.recv()]


class Server(Actor):
    """Answers later."""

    def __init__(self) -> None:
        self.waiting: list[Port[str]] = []

    @endpoint(explicit_response_port=True)
    def wait_for_news(self, port: Port[str]) -> None:
        self.waiting.append(port)

    @endpoint
    def publish(self, text: str) -> int:
        for port in self.waiting:
            port.send(text)
        count, self.waiting = len(self.waiting), []
        return count

    @endpoint
    def forget(self) -> None:
        self.waiting = []

    @endpoint
    def hand_over(self) -> list[Port[str]]:
        ports, self.waiting = self.waiting, []
        return ports

    @endpoint(explicit_response_port=True)
    def twice(self, port: Port[int], first: int, second: int) -> None:
        port.send(first)
        port.send(second)

    @endpoint(explicit_response_port=True)
    def refuse(self, port: Port[int]) -> None:
        port.exception(KeyError("no"))

    @endpoint(explicit_response_port=True)
    def raise_it(self, port: Port[int]) -> None:
        raise KeyError("escaped")

    @endpoint(explicit_response_port=True)
    def answer_and_raise(self, port: Port[int]) -> None:
        port.send(1)
        raise KeyError("too late")

    @endpoint(explicit_response_port=True)
    def pass_on_and_raise(self, port: Port[int], other: Port[Any]) -> None:
        other.send(port)
        raise KeyError("in time")

    @endpoint(explicit_response_port=True)
    def through(self, port: Port[int], sender: Any) -> None:
        sender.send.broadcast(port, 7)

    @endpoint
    def ping(self) -> str:
        return "pong"

    @endpoint
    def end(self) -> None:
        raise SystemExit(1)


class Counter(Actor):
    @endpoint
    def count(self, n: int) -> Any:
        for i in range(n):
            yield current_rank().rank, i

    @endpoint
    def fail_after(self, n: int, rank: int) -> Any:
        yield from range(n)
        if current_rank().rank == rank:
            raise KeyError(n)

    @endpoint
    def wait_between(self, gate: Any) -> Any:
        yield 1
        gate.ping.call_one().get(timeout=20)
        yield 2


class AsyncCounter(Actor):
    @endpoint
    async def count(self, n: int) -> Any:
        for i in range(n):
            yield i
            await asyncio.sleep(0)


class AsyncServer(Actor):
    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    @endpoint(explicit_response_port=True)
    async def from_a_task(self, port: Port[int], value: int) -> None:
        async def answer() -> None:
            port.send(value)

        self.tasks.append(asyncio.create_task(answer()))

    @concurrent_endpoint(explicit_response_port=True)
    async def concurrently(self, port: Port[int], value: int) -> None:
        port.send(value)
