"""The actors of chaotic programs. A module of its own, light to import, so that workers import it by name."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from typing import Any

from chaotic_actors import die_here, misbehave
from monarch.actor import Actor, ActorError, HostMesh, MeshFailure, SupervisionError, context, endpoint, this_host

# What a respawn may raise when there are more deaths meanwhile, or a stop: then there is other news of that.
BEATEN = (ActorError, SupervisionError, RuntimeError)


def note(directory: str, owner: str, failure: MeshFailure) -> None:
    """Write down that an owner heard of a failure, in the words of the state machine."""
    ranks = ",".join(str(point.rank) for point in failure.ranks)
    line = f"{owner} {failure.name} {ranks} {cause_of(failure)}\n"
    with open(f"{directory}/heard", "a") as file:
        file.write(line)


def cause_of(failure: MeshFailure) -> str:
    if failure.kind == "signal":
        return f"signal:{failure.signal}"
    if failure.kind == "exit":
        return f"exit:{failure.exit_code}"
    return _cause_in(failure.report())


def _cause_in(report: str) -> str:
    """Of a failure that an owner did not handle: what that was, as far down as it goes."""
    below = re.search(r"(?:from its child: |told of \[)(\w+)-[0-9a-f]{12}\S*( .*)", report, re.DOTALL)
    if below is not None:
        return f"unhandled({below[1]}:{_cause_in(below[2])})"
    if signal := re.search(r"was killed by signal (\d+)", report):
        return f"signal:{signal[1]}"
    if status := re.search(r"exited with status (\d+)", report):
        return f"exit:{status[1]}"
    return "exception"


class Family:
    """What one owner owns, by name."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.meshes: dict[str, Any] = {}
        self.procs_of: dict[str, str] = {}
        self.spawning = threading.Lock()  # the program is told of a failure beside what it spawns

    def spawn(self, host: HostMesh, mesh: dict[str, Any], bootstrap: Any = None) -> dict[str, Any]:
        """Processes with two actors in each: one that may own more, and one that can end its process."""
        number = mesh["number"]
        name = f"P{number}"
        procs: Any = host.spawn_procs({"r": mesh["size"]}, name=name, bootstrap=bootstrap)
        self.meshes[name] = procs
        self.procs_of[name] = name
        kind = AsyncMember if mesh.get("is_async") else Member
        self.spawn_actors(f"A{number}", name, kind, mesh)
        self.spawn_actors(f"S{number}", name, Member, {})
        return {name: self.meshes[name] for name in (name, f"A{number}", f"S{number}")}

    def spawn_actors(self, name: str, procs: str, kind: type[Member], mesh: dict[str, Any]) -> Any:
        with self.spawning:
            self.meshes[name] = self.meshes[procs].spawn(name, kind, self.directory, mesh)
            self.procs_of[name] = procs
            return self.meshes[name]

    def recover(self, failure: MeshFailure) -> list[Any]:
        """Begin to make again what failed: steps, each of which begins something and is to be waited for."""
        with self.spawning:
            procs, mesh = self.meshes[self.procs_of[failure.name]], self.meshes[failure.name]
        steps = [procs.respawn]
        if mesh is not procs:
            steps.append(lambda: mesh.respawn(failure.ranks))
        return steps


class Member(Actor):
    """Fails as it is told, owns what it is told, and deals with failures as planned."""

    def __init__(self, directory: str, mesh: dict[str, Any]) -> None:
        instance = context().actor_instance
        self.name = f"{instance.name}.{instance.rank.rank}"
        self.mesh = mesh
        self.family = Family(directory)
        self.casts = 0
        if mesh.get("init") and self._is_first_life():
            misbehave(mesh["init"])

    def _is_first_life(self) -> bool:
        try:
            os.close(os.open(f"{self.family.directory}/{self.name}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def do(self, how: str) -> None:
        misbehave(how)

    @endpoint
    def count(self) -> None:
        self.casts += 1

    @endpoint
    def own(self, mesh: dict[str, Any]) -> dict[str, Any]:
        """Spawn, and don't wait."""
        return self.family.spawn(this_host(), mesh, die_here if mesh.get("bootstrap") else None)

    @endpoint
    def own_failing(self, name: str, procs: str, how: str) -> Any:
        return self.family.spawn_actors(name, procs, type(self), {"init": how})

    @endpoint
    def stop_owned(self, name: str) -> None:
        self.family.meshes[name].stop().get(timeout=60)

    def __supervise__(self, failure: MeshFailure) -> bool:
        note(self.family.directory, self.name, failure)
        misbehave(self.mesh.get("supervise", ""))
        if self.mesh.get("verdict") == "respawns":
            for step in self.family.recover(failure):
                with contextlib.suppress(BEATEN):
                    step().get(timeout=60)
        return self.mesh.get("verdict") in ("handles", "respawns")

    def __cleanup__(self, exc: Exception | None) -> None:
        misbehave(self.mesh.get("cleanup", ""))


class AsyncMember(Member):
    """The same with an event loop."""

    @endpoint
    async def pause(self) -> None:
        return None

    async def __supervise__(self, failure: MeshFailure) -> bool:  # type: ignore[override]
        note(self.family.directory, self.name, failure)
        misbehave(self.mesh.get("supervise", ""))
        if self.mesh.get("verdict") == "respawns":
            for step in self.family.recover(failure):
                with contextlib.suppress(BEATEN):
                    await step()
        return self.mesh.get("verdict") in ("handles", "respawns")

    async def __cleanup__(self, exc: Exception | None) -> None:  # type: ignore[override]
        super().__cleanup__(exc)
