"""What runs short while a program runs: descriptors, and memory that many short lives could add up to."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from monarch._actor.context import process
from monarch.actor import Actor, ProcMesh, endpoint
from sample_actors import Echo, Where

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads memory from Linux's /proc")

SpawnProcs = Callable[..., ProcMesh]


class Hog(Actor):
    """Takes all descriptors of its process."""

    @endpoint
    def take_all(self) -> int:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 128), hard))
        self.taken = []
        try:
            while True:
                self.taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return len(self.taken)


class Memory(Actor):
    @endpoint
    def proportional_bytes(self) -> int:
        return proportional_bytes()


def proportional_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def test_an_actor_for_whose_thread_no_descriptor_is_left_works(spawn_procs: SpawnProcs) -> None:
    procs = spawn_procs()
    procs.spawn("first", Where).stop().get(timeout=30)  # imports what a stop needs
    hog = procs.spawn("hog", Hog)
    assert hog.take_all.call_one().get(timeout=30) > 0
    where = procs.spawn("where", Where)
    for _ in range(3):
        assert where.pid.call_one().get(timeout=30) > 0
    assert where.stop().get(timeout=30) is None


def test_actors_that_come_and_go_leave_no_memory_behind(spawn_procs: SpawnProcs) -> None:
    procs = spawn_procs()
    memory = procs.spawn("memory", Memory)
    rounds = 1500
    measured: list[tuple[int, int]] = []
    known = len(process().ownership)
    for number in range(rounds):
        echo = procs.spawn("echo", Echo)
        echo.pid.call_one().get(timeout=30)
        echo.stop().get(timeout=30)
        if number + 1 in (rounds // 5, rounds):
            measured.append((proportional_bytes(), memory.proportional_bytes.call_one().get(timeout=30)))
    assert len(process().ownership) == known
    for before, after in zip(*measured):
        assert after - before <= max(0.05 * before, 5e6)


@pytest.mark.long
def test_processes_that_come_and_go_leave_no_memory_behind(spawn_procs: SpawnProcs) -> None:
    rounds = 100
    measured: list[tuple[int, int]] = []
    known = len(process().ownership)
    for number in range(rounds):
        procs = spawn_procs()
        procs.spawn("echo", Echo).pid.call_one().get(timeout=60)
        procs.stop().get(timeout=60)
        if number + 1 in (rounds // 5, rounds):
            measured.append((proportional_bytes(), len(os.listdir("/proc/self/fd"))))
    assert len(process().ownership) == known
    (memory_before, open_before), (memory_after, open_after) = measured
    assert memory_after - memory_before <= max(0.05 * memory_before, 5e6)
    assert open_after <= open_before
