"""Actors that tests spawn. A module of its own, light to import, so that workers import it by name."""

from __future__ import annotations

import pickle
import time
from typing import Any, NamedTuple

from monarch.actor import Actor, ActorMesh, Channel, endpoint, send

# Ways to address a mesh `{row: 2, col: 2}`, and the ranks that they reach.
VIEWS: dict[str, tuple[Any, list[int]]] = {
    "all": (lambda mesh: mesh, [0, 1, 2, 3]),
    "row 0": (lambda mesh: mesh.slice(row=0), [0, 1]),
    "column 1": (lambda mesh: mesh.slice(col=-1), [1, 3]),
    "rank 0": (lambda mesh: mesh.slice(row=0, col=0), [0]),
    "rank 3": (lambda mesh: mesh[3], [3]),
    "flat": (lambda mesh: mesh.flatten("n"), [0, 1, 2, 3]),
    "the middle": (lambda mesh: mesh.flatten("n").slice(n=slice(1, 3)), [1, 2]),
    "the ends": (lambda mesh: mesh.flatten("n").slice(n=[3, 0]), [0, 3]),
}
ADVERBS = ("broadcast", "call", "stream", "send")


class Step(NamedTuple):
    """One message: to whom, by which reference, how, and how long the sender waits before it."""

    view: str
    through_copy: bool
    adverb: str
    delay_s: float


def follow(plan: list[Step], mesh: Any, name: str) -> None:
    """Send the numbers of the steps."""
    views = {view: select(mesh) for view, (select, _) in VIEWS.items()}
    copies = {view: select(pickle.loads(pickle.dumps(mesh))) for view, (select, _) in VIEWS.items()}
    port, receiver = Channel[Any].open()
    pending: list[Any] = []
    for number, step in enumerate(plan):
        if step.delay_s:
            time.sleep(step.delay_s)
        note = (copies if step.through_copy else views)[step.view].note
        if step.adverb == "send":
            send(note, (name, number), {}, port=port)
            pending += [receiver.recv() for _ in VIEWS[step.view][1]]
        elif step.adverb == "stream":
            pending += list(note.stream(name, number))
        elif step.adverb == "call":
            pending.append(note.call(name, number))
        else:
            note.broadcast(name, number)
    for future in pending:
        future.get(timeout=60)


class Log(Actor):
    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    @endpoint
    def note(self, sender: str, number: int) -> None:
        self.seen.append((sender, number))

    @endpoint
    def take(self) -> list[tuple[str, int]]:
        taken, self.seen = self.seen, []
        return taken


class AsyncLog(Log):
    """The same, with an event loop."""

    @endpoint
    async def rest(self) -> None: ...


class Sender(Actor):
    @endpoint
    def follow(self, plan: list[Step], mesh: ActorMesh, name: str) -> None:
        follow(plan, mesh, name)


class Mirror(Actor):
    @endpoint
    def reflect(self, value: Any) -> Any:
        return value

    @endpoint
    def reflect_later(self, delay_s: float, value: Any) -> Any:
        time.sleep(delay_s)
        if isinstance(value, Exception):
            raise value
        return value
