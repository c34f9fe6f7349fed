"""Actors that fail on demand. A module of its own, so that workers import it by name."""

from __future__ import annotations

import os
import time
from typing import Any

from monarch.actor import Actor, MeshFailure, RestartPolicy, current_rank, endpoint, this_host


class Worker(Actor):
    """Counts from zero in each of its lives."""

    def __init__(self) -> None:
        self.calls = 0

    @endpoint
    def count(self) -> int:
        self.calls += 1
        return self.calls

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def add(self, a: int, b: int) -> int:
        return a + b

    @endpoint
    def end(self) -> None:
        """Fail the actor; its process lives on."""
        raise SystemExit(3)

    @endpoint
    def refuse(self, text: str) -> None:
        raise ValueError(text)

    @endpoint
    def refuse_once_there(self, path: str, ranks: list[int]) -> None:
        """Refuse, at some ranks not before the file is there."""
        while current_rank().rank in ranks and not os.path.exists(path):
            time.sleep(0.002)
        raise ValueError(f"refused by {current_rank().rank}")

    @endpoint
    def end_process(self) -> None:
        os._exit(7)

    @endpoint
    def note_and_end_process(self, path: str) -> None:
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")
        os._exit(7)

    @endpoint
    def end_process_once(self, path: str) -> int:
        """End the process where the file is missing, and make it."""
        if not os.path.exists(path):
            open(path, "w").close()
            os._exit(7)
        return os.getpid()

    @endpoint
    def wait_for(self, path: str) -> int:
        """Answer with the process id once the file is there; `path.<pid>` says that this runs."""
        open(f"{path}.{os.getpid()}", "w").close()
        while not os.path.exists(path):
            time.sleep(0.002)
        return os.getpid()

    @endpoint
    def wait_or_refuse(self, path: str, refusing: int) -> int:
        from monarch.actor import current_rank

        if current_rank().rank == refusing:
            raise ValueError("refused")
        while not os.path.exists(path):
            time.sleep(0.002)
        return os.getpid()


class FailsToStart(Actor):
    """Its constructor fails as often as the file says, and lowers the number."""

    def __init__(self, path: str) -> None:
        with open(path) as file:
            left = int(file.read())
        if left:
            with open(path, "w") as file:
                file.write(str(left - 1))
            raise ValueError(f"{left} failures left")

    @endpoint
    def hello(self) -> str:
        return "hello"


class Boss(Actor):
    """Owns a supervised worker."""

    def __init__(self) -> None:
        self.failures: list[MeshFailure] = []

    @endpoint
    def own(self, policy: RestartPolicy) -> Any:
        self.procs = this_host().spawn_procs(name="owned")
        self.worker = self.procs.supervised(policy).spawn("worker", Worker)
        return self.worker

    @endpoint
    def seen(self) -> list[MeshFailure]:
        return self.failures

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.failures.append(failure)
        return True
