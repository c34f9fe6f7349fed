"""Actors that keep, change and pass on what they are given."""

from __future__ import annotations

import os
import resource
from typing import Any

from monarch._actor import context
from monarch.actor import Actor, Channel, Port, endpoint

LARGE_BYTES = 3 << 20


_of_others = 0


def slots_taken() -> int:
    """How many slots of this process's slabs somebody has, since this test began."""
    return _slots() - _of_others


def forget_other_tests() -> None:
    """What other tests have lent to actors that live on is no matter of the one that begins."""
    global _of_others
    _of_others = _slots()


def _slots() -> int:
    return context._process.runtime.shared_memory[1] if context._process is not None else 0


def slab_bytes() -> int:
    """How long this process's slabs are, all together."""
    assert context._process is not None
    return context._process.runtime.shared_memory[0]


def memory_mb(pid: int | str = "self") -> float:
    """What a process has of the machine's memory, with its share of what others see too."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) / 1024


class Keeper(Actor):
    def __init__(self) -> None:
        self.kept: list[Any] = []

    @endpoint
    def keep(self, value: Any) -> None:
        self.kept.append(value)

    @endpoint
    def drop(self) -> None:
        self.kept.clear()

    @endpoint
    def show(self, index: int = -1) -> Any:
        return self.kept[index]

    @endpoint
    def echo(self, value: Any) -> Any:
        return value

    @endpoint
    def kind(self, value: Any) -> str:
        return type(value).__qualname__

    @endpoint
    def add(self, value: Any, amount: int) -> int:
        """Change what was received in place; its sum afterwards."""
        value += amount
        return int(value.sum())

    @endpoint
    def add_to_kept(self, amount: int) -> None:
        for value in self.kept:
            value += amount

    @endpoint
    def sums(self) -> list[int]:
        return [int(value.sum()) for value in self.kept]

    @endpoint
    def pass_on(self, other: Any, value: Any) -> Any:
        other.keep.call_one(value).get()
        value += 1
        return other.sums.call_one().get()

    @endpoint
    def tell(self, other: Any, sizes: list[int]) -> Any:
        """Send arrays of ones of these sizes, and the sums that the other one has kept afterwards."""
        import numpy

        for size in sizes:
            other.keep.broadcast(numpy.ones(size, numpy.uint8))
        return other.sums.call_one().get()

    @endpoint
    def send_to(self, port: Port[Any], value: Any) -> None:
        port.send(value)

    @endpoint
    def channel_of_own(self, value: Any) -> Any:
        port, receiver = Channel[Any].open()
        port.send(value)
        return receiver.recv().get()

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def memory_mb(self) -> float:
        return memory_mb()

    @endpoint
    def slots_taken(self) -> int:
        return slots_taken()

    @endpoint
    def allow_descriptors(self, more: bool) -> None:
        """Let this process open no descriptor any more, or again."""
        allow_descriptors(more)

    @endpoint
    def fork_and_drop(self) -> int:
        """A child that has what is kept, and says what it sees of it when it is asked; here it is dropped."""
        asked, ask = os.pipe()
        answer, answered = os.pipe()
        if os.fork() == 0:
            try:
                os.read(asked, 1)
                os.write(answered, str(int(self.kept[0].sum())).encode())
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answered)
        self.child = ask, answer
        self.kept.clear()
        return 0

    @endpoint
    def ask_child(self) -> int:
        ask, answer = self.child
        os.write(ask, b"?")
        seen = int(os.read(answer, 100))
        os.wait()
        os.close(ask)
        os.close(answer)
        return seen


_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)


def allow_descriptors(more: bool) -> None:
    """Let this process open no descriptor any more, or again."""
    if more:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_soft, _hard))
        return
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, _hard))
