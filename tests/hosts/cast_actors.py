"""Actors that casts over several hosts go to; workers import them by name."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from monarch.actor import Actor, Port, current_rank, endpoint


class Member(Actor):
    """Notes what it hears, in order."""

    def __init__(self) -> None:
        self.own_rank = current_rank().rank
        self.heard: list[int] = []
        self.kept: np.ndarray[Any, Any] | None = None

    @endpoint
    def rank(self) -> int:
        """Its rank in the whole mesh, which messages to a part of it number otherwise."""
        return self.own_rank

    @endpoint
    def place(self) -> int:
        return current_rank().rank

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def hear(self, number: int) -> None:
        self.heard.append(number)

    @endpoint
    def all_heard(self) -> list[int]:
        return self.heard

    @endpoint
    def fail_on(self, ranks: list[int]) -> int:
        rank = self.own_rank
        if rank in ranks:
            raise ValueError(f"rank {rank} refuses")
        return rank

    @endpoint
    def end_on(self, ranks: list[int]) -> int:
        rank = self.own_rank
        if rank in ranks:
            os.kill(os.getpid(), signal.SIGKILL)
        return rank

    @endpoint
    def send_rank(self, port: Port[int]) -> None:
        port.send(self.own_rank)

    @endpoint(explicit_response_port=True)
    def answer_while_stopped(self, port: Port[int], pid: int, ready: Port[int], directory: str) -> None:
        """Answer once that process is stopped, and leave a file that says so."""
        ready.send(self.own_rank)
        while not _is_stopped(pid):
            os.sched_yield()
        port.send(self.own_rank)
        Path(directory, f"answered-{self.own_rank}").touch()

    @endpoint
    def keep(self, array: np.ndarray[Any, Any]) -> int:
        """Its sum; the array is this actor's own, which it changes."""
        total = int(array.sum())
        array += self.own_rank
        self.kept = array
        return total

    @endpoint
    def kept_sum(self) -> int:
        assert self.kept is not None
        return int(self.kept.sum())

    @endpoint
    def call_all(self, members: Member) -> list[int]:
        """What a call to all of them answers, from here."""
        return [rank for _, rank in members.rank.call().get(timeout=60).items()]

    @endpoint
    def tell_all(self, members: Member, count: int) -> list[list[int]]:
        """Messages to all and to single ones by turns; what each has heard then."""
        for number in range(count):
            members.hear.broadcast(2 * number)
            for place in range(len(members)):
                members.flatten("member").slice(member=place).hear.broadcast(2 * number + 1)
        return [heard for _, heard in members.all_heard.call().get(timeout=60).items()]

    @endpoint
    def call_to_end(self, members: Member, ranks: list[int]) -> str:
        """What is said of the end of members during a call to all."""
        try:
            members.end_on.call(ranks).get(timeout=60)
        except Exception as error:  # whatever it is, the test looks at its text
            return f"{type(error).__name__}: {error}"
        return "nothing"


def _is_stopped(pid: int) -> bool:
    """Whether all threads of a process are: each of them stops for itself."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}
