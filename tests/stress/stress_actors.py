"""Actors that tests spawn. A module of its own, light to import, so that workers import it by name."""

from __future__ import annotations

import ctypes
import gc
import os
import random
from collections import Counter
from typing import Any

from monarch.actor import Actor, current_rank, endpoint

Name = tuple[int, int]  # number of the mesh, rank in it


class Correspondent(Actor):
    """Sends numbered messages to some others, and checks the numbers of what it is sent."""

    def __init__(self, mesh: int) -> None:
        self.name: Name = (mesh, current_rank().rank)
        self.partners: dict[Name, Any] = {}
        self.sent: Counter[Name] = Counter()
        self.received: Counter[Name] = Counter()
        self.wrong: list[tuple[Name, int, int]] = []

    @endpoint
    def meet(self, meshes: list[Any], partners: int) -> None:
        """Choose whom to write to."""
        self.choice = random.Random(repr(self.name))
        everybody = [(mesh, rank) for mesh in range(len(meshes)) for rank in range(len(meshes[mesh]))]
        self.partners = {(mesh, rank): meshes[mesh][rank] for mesh, rank in self.choice.sample(everybody, partners)}

    @endpoint
    def write(self, messages: int) -> None:
        """Send so many messages to each partner, in a random order of partners."""
        addressees = list(self.partners) * messages
        self.choice.shuffle(addressees)
        for name in addressees:
            self.partners[name].take.broadcast(self.name, self.sent[name])
            self.sent[name] += 1

    @endpoint
    def take(self, sender: Name, number: int) -> None:
        if number != self.received[sender]:
            self.wrong.append((sender, self.received[sender], number))
        self.received[sender] += 1

    @endpoint
    def count(self) -> int:
        return sum(self.received.values())

    @endpoint
    def report(self) -> tuple[Name, Counter[Name], Counter[Name], list[tuple[Name, int, int]]]:
        return self.name, self.sent, self.received, self.wrong


class Housekeeper(Actor):
    """One in each process."""

    @endpoint
    def pids(self) -> tuple[int, int]:
        """Of this process and of its parent, the keeper."""
        return os.getpid(), os.getppid()

    @endpoint
    def tidy(self) -> None:
        tidy()


def tidy() -> None:
    """Give back to the system what the allocator keeps for the next burst of messages, which differs by chance."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
