"""End states as the state machine says them and as a program sees them, made comparable."""

from __future__ import annotations

import re


class View:
    """What can be told from outside about the meshes that some events make.

    Whoever asks an actor hears of the end of its process, whatever became of the actor before. The end of a process is
    told for all actor meshes that were there, in any order: an owner that handles nothing fails of any of them. And who
    has stopped a mesh hears no more of it than that.
    """

    def __init__(self, events: list[str]) -> None:
        self.hosts: dict[str, str] = {}  # the processes that actors live on
        self.passing: set[str] = set()  # owners that handle nothing
        self.stopped: set[str] = set()  # by the program itself
        owned: set[str] = set()
        for event in events:
            words = event.split()
            if words[:1] in (["actors"], ["procs"]) and words[2] == "client":
                owned.add(words[1])
            if words[:1] == ["stop"] and words[1] in owned:
                self.stopped.add(words[1])
            if words[:1] == ["actors"]:
                self.hosts[words[1]] = words[3]
            if words[:1] in (["actors"], ["client"]) and words[-1] == "passes":
                self.passing.add(words[1] if words[0] == "actors" else "client")

    def of(self, state: list[str]) -> frozenset[str]:
        """One line for each member, and one for each owner, mesh and cause that was heard."""
        living = {line.removesuffix(" lives") for line in state if line.endswith(" lives")}
        lines = {self._member(line, living) for line in state if not line.startswith("heard") and "absent" not in line}
        heard: dict[tuple[str, str, str], set[int]] = {}
        for line in state:
            if line.startswith("heard"):
                _, owner, mesh, ranks, cause = line.split()
                if owner.partition(".")[0] in self.passing:
                    mesh = self.hosts.get(mesh, mesh)
                heard.setdefault((owner, mesh, self._cause(cause)), set()).update(map(int, ranks.split(",")))
        lines |= {
            f"heard {owner} {mesh} {','.join(map(str, sorted(ranks)))} {cause}"
            for (owner, mesh, cause), ranks in heard.items()
        }
        return frozenset(lines)

    def _member(self, line: str, living: set[str]) -> str:
        member, _, state = line.partition(" ")
        name, _, rank = member.partition(".")
        if name in self.hosts and f"{self.hosts[name]}.{rank}" not in living:
            return f"{member} down"
        if name in self.stopped and state != "lives":
            return f"{member} stopped"
        return f"{member} {self._cause(state)}"

    def _cause(self, text: str) -> str:
        return re.sub(r"unhandled\((\w+):", lambda found: f"unhandled({self.hosts.get(found[1], found[1])}:", text)
