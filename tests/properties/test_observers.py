"""Many observe one future, from threads and event loops, with time limits, and some give it up: all see one outcome."""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import threading
from typing import Any

import pytest
from monarch.actor import ProcMesh
from property_actors import Mirror

TIMEOUTS_S = (0, 0.0005, 0.005, 30)
CANCELLED = "cancelled"


class Observers:
    """Threads and loops around one future. Each goes on until it has seen an outcome."""

    def __init__(self, future: Any, seed: int, cancels: bool) -> None:
        self.future = future
        self.seed = seed
        self.cancels = cancels
        self.outcomes: list[Any] = []

    def run(self) -> list[Any]:
        bodies = [self.by_thread, self.by_thread, self.by_thread, self.by_loop, self.by_loop]
        threads = [threading.Thread(target=body, args=(self.seed * 10 + i,)) for i, body in enumerate(bodies)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.outcomes

    def by_thread(self, seed: int) -> None:
        choice = random.Random(seed)
        while True:
            if self.cancels and choice.random() < 0.1:
                self.future.cancel()
            self.future.done()
            try:
                self.outcomes.append(self.future.get(timeout=choice.choice(TIMEOUTS_S)))
            except TimeoutError:
                continue
            except concurrent.futures.CancelledError:
                self.outcomes.append(CANCELLED)
            except KeyError as error:
                self.outcomes.append(str(error.exception))  # type: ignore[attr-defined]
            return

    def by_loop(self, seed: int) -> None:
        choice = random.Random(seed)

        async def observe() -> Any:
            while True:
                task = asyncio.ensure_future(self.future.as_asyncio())
                try:
                    return await asyncio.wait_for(task, choice.choice(TIMEOUTS_S[1:]))
                except asyncio.TimeoutError:
                    assert task.cancelled() or task.done()
                except asyncio.CancelledError:
                    return CANCELLED
                except KeyError as error:
                    return str(error.exception)  # type: ignore[attr-defined]

        self.outcomes.append(asyncio.run(observe()))


@pytest.fixture(scope="module")
def mirrors(grid: ProcMesh) -> Any:
    return grid.spawn("mirror", Mirror)


def all_see_the_same(mirrors: Any, seed: int) -> None:
    choice = random.Random(seed)
    delay_s, fails = choice.choice((0, 0.001, 0.01)), choice.random() < 0.3
    value = KeyError(seed) if fails else seed
    future = mirrors[seed % 4].reflect_later.call_one(delay_s, value)
    outcomes = Observers(future, seed, cancels=choice.random() < 0.5).run()
    assert len(outcomes) == 5
    assert len(set(outcomes)) == 1, outcomes
    assert outcomes[0] in (CANCELLED, str(value) if fails else value)
    assert future.cancelled() == (outcomes[0] == CANCELLED)
    # The actor serves on, whatever became of the call.
    assert mirrors[seed % 4].reflect.call_one(seed).get(timeout=30) == seed


@pytest.mark.parametrize("seed", range(20))
def test_all_observers_see_one_outcome(mirrors: Any, seed: int) -> None:
    all_see_the_same(mirrors, seed)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_all_observers_see_one_outcome_in_many_orders(mirrors: Any) -> None:
    for seed in range(1000, 3000):
        all_see_the_same(mirrors, seed)
