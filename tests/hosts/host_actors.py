"""Actors for tests of hosts; workers import them by name."""

from __future__ import annotations

import os
import time

from monarch.actor import (
    Actor,
    HostMesh,
    MeshFailure,
    Port,
    SupervisionError,
    current_rank,
    endpoint,
    this_host,
    this_proc,
)


class Placed(Actor):
    """Says where it is, and talks to others."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    @endpoint
    def where(self) -> tuple[int, dict[str, int]]:
        return os.getpid(), dict(current_rank())

    @endpoint
    def host_program(self) -> int:
        """The process that looks after this one's host: the parent of the keeper."""
        keeper = os.getppid()
        return int(_status(keeper, "PPid"))

    @endpoint
    def ask(self, other: Placed) -> int:
        pid: int = other.where.call_one().get(timeout=60)[0]
        return pid

    @endpoint
    def ask_to_sleep(self, other: Placed) -> None:
        other.sleep.call_one().get()

    @endpoint
    def tell(self, other: Placed, count: int) -> None:
        for number in range(count):
            other.hear.broadcast(number)

    @endpoint
    def hear(self, number: int) -> None:
        self.heard.append(number)

    @endpoint
    def all_heard(self) -> list[int]:
        return self.heard

    @endpoint
    def send_rank(self, port: Port[int]) -> None:
        port.send(current_rank().rank)

    @endpoint
    def sleep(self, ready: Port[int] | None = None) -> None:
        if ready is not None:
            ready.send(os.getpid())
        time.sleep(1000)

    @endpoint
    def spawn_on(self, hosts: HostMesh, name: str) -> list[int]:
        """Processes that this actor owns; their process ids."""
        placed = hosts.spawn_procs(name=name).spawn(name, Placed)
        return [pid for _, (pid, _) in placed.where.call().get(timeout=60).items()]

    @endpoint
    def spawn_here(self) -> tuple[int, int]:
        """A process on this actor's host: its id, and that of the program that looks after it."""
        placed = this_host().spawn_procs(name="nested").spawn("nested", Placed)
        return placed.where.call_one().get(timeout=60)[0], placed.host_program.call_one().get(timeout=60)

    @endpoint
    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    @endpoint
    def cpus(self) -> set[int]:
        return os.sched_getaffinity(0)

    @endpoint
    def directory(self) -> str:
        return os.getcwd()

    @endpoint
    def own_host(self) -> tuple[HostMesh, HostMesh]:
        return this_host(), this_proc().host_mesh


class Keeping(Placed):
    """Owns processes on other hosts, and puts up with their end."""

    @endpoint
    def spawn_to_keep(self, hosts: HostMesh) -> None:
        """Processes on other hosts that this actor may respawn."""
        self.kept = hosts.spawn_procs(name="kept")
        self.kept_actors = self.kept.spawn("kept", Placed)
        self.kept_actors.where.call().get(timeout=60)

    @endpoint
    def respawn_kept(self) -> str:
        """The program that looks after the host of the new process, or why there is none."""
        while self._lives(self.kept_actors):
            pass
        try:
            self.kept.respawn().get(timeout=60)
        except RuntimeError as error:
            return str(error)
        self.kept_actors.respawn().get(timeout=60)
        return str(self.kept_actors.host_program.call_one().get(timeout=60))

    def _lives(self, member: Placed) -> bool:
        try:
            member.where.call_one().get(timeout=60)
        except SupervisionError:
            return False
        return True

    def __supervise__(self, failure: MeshFailure) -> bool:
        return True


def _status(pid: int, field: str) -> str:
    with open(f"/proc/{pid}/status") as status:
        return next(line.split()[1] for line in status if line.startswith(f"{field}:"))
