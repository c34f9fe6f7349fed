"""Many actors exchange many messages: none is lost, doubled or out of order, and memory stays flat."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually
from monarch.actor import ProcMesh
from stress_actors import Correspondent, Housekeeper, tidy

SpawnProcs = Callable[..., ProcMesh]

PARTNERS = 10
MEGABYTE = 1_000_000


class Exchange:
    """Actors on processes, of which each writes to some others."""

    def __init__(self, procs: ProcMesh, actors: int) -> None:
        whole, rest = divmod(actors, len(procs))
        places = [procs] * whole + ([procs.flatten("n").slice(n=slice(0, rest))] if rest else [])
        self.actors = actors
        self.meshes: list[Any] = [place.spawn("c", Correspondent, number) for number, place in enumerate(places)]
        self.sent = 0
        self.each("meet", self.meshes, PARTNERS)

    def each(self, name: str, *args: Any) -> list[Any]:
        """What an endpoint answers, of all actors."""
        calls = [getattr(mesh, name).call(*args) for mesh in self.meshes]
        return [value for call in calls for value in call.get(timeout=600).values()]

    def write(self, messages: int) -> None:
        """Each actor sends so many messages to each of its partners; returns once all have arrived."""
        self.each("write", messages)
        self.sent += messages * PARTNERS * self.actors
        eventually(lambda: sum(self.each("count")) >= self.sent, "all messages arrive", within_s=600)

    def check(self) -> None:
        sent: dict[Any, Counter[Any]] = {}
        received: dict[Any, Counter[Any]] = {}
        for name, written, taken, wrong in self.each("report"):
            assert wrong == [], f"{name} was sent, expected and got {wrong[:10]}"
            received[name] = taken
            for addressee, count in written.items():
                sent.setdefault(addressee, Counter())[name] = count
        assert sum(sum(taken.values()) for taken in received.values()) == self.sent
        assert {name: taken for name, taken in received.items() if taken} == sent


def test_nothing_is_lost_doubled_or_out_of_order_between_many_actors(spawn_procs: SpawnProcs) -> None:
    exchange = Exchange(spawn_procs({"gpus": 4}), actors=50)
    for _ in range(2):
        exchange.write(5)
    exchange.check()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_millions_of_messages_between_a_thousand_actors_leave_memory_flat(spawn_procs: SpawnProcs) -> None:
    # Four million: the caches of the allocator fill up with the first one, by some 20 KB for each actor's thread.
    rounds, messages = 80, 5
    procs = spawn_procs({"gpus": 16})
    exchange = Exchange(procs, actors=1000)
    memory = Memory(procs)
    for _ in range(rounds // 5):
        exchange.write(messages)
    early = memory.used()
    for _ in range(rounds - rounds // 5):
        exchange.write(messages)
    late = memory.used()
    exchange.check()
    assert exchange.sent == 4_000_000
    print(f"\nmemory in use: {early / MEGABYTE:.1f} MB at 20 %, {late / MEGABYTE:.1f} MB at 100 %")
    assert abs(late - early) <= max(0.05 * early, 5 * MEGABYTE)


class Memory:
    """Of this program, its keeper and its workers."""

    def __init__(self, procs: ProcMesh) -> None:
        self._housekeepers = procs.spawn("housekeepers", Housekeeper)
        workers, keepers = zip(*self._housekeepers.pids.call().get(timeout=60).values())
        self._pids = {os.getpid(), *workers, *keepers}

    def used(self) -> int:
        """Bytes; what processes share is divided among them."""
        self._housekeepers.tidy.call().get(timeout=60)
        tidy()
        return sum(map(proportional_set_size, self._pids))


def proportional_set_size(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/smaps_rollup has no Pss")
