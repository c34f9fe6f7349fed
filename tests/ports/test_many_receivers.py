"""Random requests from threads and event loops, of which many are given up: no message is lost or doubled."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest
from monarch.actor import Channel

MESSAGES = 1000
TIMEOUTS_S = (0, 0.001, 0.05, 20)


class Collected:
    """Values from many threads."""

    def __init__(self, receiver: Any) -> None:
        self.receiver = receiver
        self.values: list[int] = []

    def by_thread(self, seed: int) -> None:
        choice = random.Random(seed)
        while True:
            request = self.receiver.recv()
            way = choice.random()
            if way < 0.2:
                continue  # abandoned
            if way < 0.4 and request.cancel():
                continue
            try:
                value = request.get(timeout=choice.choice(TIMEOUTS_S))
            except TimeoutError:
                continue
            if value is None:
                return
            self.values.append(value)

    def by_event_loop(self, seed: int) -> None:
        choice = random.Random(seed)

        async def receive() -> None:
            while True:
                try:
                    value = await asyncio.wait_for(self.receiver.recv().as_asyncio(), choice.choice(TIMEOUTS_S[1:]))
                except asyncio.TimeoutError:
                    continue
                if value is None:
                    return
                self.values.append(value)

        asyncio.run(receive())


@pytest.mark.parametrize("seed", range(3))
def test_no_message_is_lost_or_doubled(seed: int) -> None:
    port, receiver = Channel[Any].open()
    collected = Collected(receiver)
    bodies = [collected.by_thread, collected.by_thread, collected.by_event_loop, collected.by_event_loop]
    threads = [threading.Thread(target=body, args=(seed * 10 + i,)) for i, body in enumerate(bodies)]
    for thread in threads:
        thread.start()
    for value in range(MESSAGES):
        port.send(value)
    for _ in threads:
        port.send(None)
    for thread in threads:
        thread.join()
    assert sorted(collected.values) == list(range(MESSAGES))
