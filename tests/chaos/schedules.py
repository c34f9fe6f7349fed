"""Random schedules of faults, made from a seed with the help of the state machine, which knows what still lives."""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# An end state, as the state machine prints it: each line is about one member, or about what an owner heard.
State = list[str]


class Machine:
    """The state machine of ownership, as a program."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def end_states(self, lines: list[str]) -> list[State]:
        """All end states that are right after these events."""
        text = "\n".join(lines) + "\n"
        done = subprocess.run([self._program], input=text, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise ValueError(f"{done.stderr}in the schedule\n{text}")
        return [state.splitlines() for state in done.stdout.split("or\n")]


@dataclass
class Step:
    """Things that happen at the same time, and how all may look when they have come to rest."""

    actions: list[dict[str, Any]]
    events: list[str]  # the lines for the state machine
    expected: list[State] = field(default_factory=list)


@dataclass
class Schedule:
    """Meshes, and steps of faults."""

    seed: int
    last: str  # how its program ends after it; `""` where it goes on
    verdict: str  # of the program itself
    meshes: list[dict[str, Any]]
    events: list[str]  # what makes the meshes, for the state machine
    steps: list[Step]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def describe(self) -> str:
        """The schedule as the state machine reads it."""
        return "\n".join(self.all_events())

    def all_events(self) -> list[str]:
        return [*self.events, *(line for step in self.steps for line in step.events)]


# How a program may end. Of `failure` the machine says more; the others are sudden.
LAST = ("end", "failure", "exception", "os._exit", "SIGINT", "SIGTERM", "SIGKILL")

# Signals that another process sends, and ends that the process comes to by itself; with the machine's words.
SIGNALS = {"SIGKILL": 9, "SIGSEGV": 11, "SIGABRT": 6}
ENDS = {"sigkill": "kill {} {} 9", "segfault": "kill {} {} 11", "abort": "kill {} {} 6"} | {
    "out of memory": "kill {} {} 9",
    "exit": "exit {} {} 7",
    "exit 0": "exit {} {} 0",
}
EXCEPTIONS = ("raise", "raise unpicklable", "sys.exit")


def make_schedule(seed: int, last: str, machine: Machine) -> Schedule:
    """A schedule of at least three faults: that meet living members, as long as there are any."""
    chance = random.Random(seed)
    verdict = chance.choice(["handles", "respawns"])
    verdict = "passes" if last == "failure" else verdict
    meshes = _make_meshes(chance)
    events = [f"client {verdict}"]
    for mesh in meshes:
        events += _spawn_events(mesh)
    schedule = Schedule(seed, last, verdict, meshes, events, [])
    lines = list(events)
    states = machine.end_states(lines)
    faults, wanted = 0, chance.randint(3, 6)
    while faults < wanted:
        step = _make_step(chance, chance.choice(states), schedule)
        lines += step.events
        states = step.expected = machine.end_states(lines)
        schedule.steps.append(step)
        faults += len(step.actions)
        if any(state[0] != "client lives" for state in states):
            return schedule
    if last == "failure":  # in case that none of them has reached the program yet
        step = Step([{"do": "signal", "signal": "SIGKILL", "number": 0, "rank": r} for r in (0, 1)], [_ALL_OF_P0])
        step.expected = machine.end_states([*lines, *step.events])
        schedule.steps.append(step)
    return schedule


_ALL_OF_P0 = "kill P0 0 9 | kill P0 1 9"


def _make_meshes(chance: random.Random) -> list[dict[str, Any]]:
    """Processes of the program's and of its actors', down to the third level; each with `A`ctors and `S`aboteurs."""
    owners = ["client", "client", "A0.0", f"A1.{chance.randrange(2)}", "A2.0"]
    sizes = [2, 2, chance.randint(1, 2), 1, 1]
    meshes = []
    for number, (owner, size) in enumerate(zip(owners, sizes, strict=True)):
        verdict = chance.choice(["handles", "passes", "respawns"])
        meshes.append(
            {
                "number": number,
                "owner": owner,
                "size": size,
                "is_async": chance.random() < 0.5,
                "verdict": verdict,
                "supervise": chance.choice(EXCEPTIONS) if verdict == "passes" and chance.random() < 0.5 else "",
                "cleanup": chance.choice(["", "", "", "raise", "raise unpicklable"]),
            }
        )
    return meshes if chance.random() < 0.7 else meshes[:4]


def _spawn_events(mesh: dict[str, Any]) -> list[str]:
    number, owner = mesh["number"], mesh["owner"]
    return [
        f"procs P{number} {owner} {mesh['size']}",
        f"actors A{number} {owner} P{number} {mesh['verdict']}",
        f"actors S{number} {owner} P{number} passes",
    ]


class _Target:
    """Something that lives, to be met by a fault."""

    def __init__(self, line: str, schedule: Schedule) -> None:
        name, _, rank = line.split()[0].partition(".")
        self.kind, self.number, self.rank = name[0], int(name[1:]), int(rank)
        self.is_from_start = self.number < len(schedule.meshes)
        self.owner = schedule.meshes[self.number]["owner"] if self.is_from_start else ""


def _make_step(chance: random.Random, state: State, schedule: Schedule) -> Step:
    living = [_Target(line, schedule) for line in state if line[0] in "PA" and line.endswith(" lives")]
    living = [target for target in living if target.is_from_start]
    targets = chance.sample(living, min(len(living), chance.choice([1, 1, 2, 3]))) if living else []
    if not targets:
        return Step([{"do": "nothing"}], [])
    if chance.random() < 0.2:
        return _spawn_step(chance, targets[0], schedule)
    if chance.random() < 0.15:
        return _stop_step(chance, targets[0], schedule)
    actions, events = [], []
    for target in targets:
        action, event = _process_fault(chance, target) if target.kind == "P" else _actor_fault(chance, target)
        actions.append(action)
        events.append(event)
    return Step(actions, [" | ".join(filter(None, events))])


def _process_fault(chance: random.Random, target: _Target) -> tuple[dict[str, Any], str]:
    place = {"number": target.number, "rank": target.rank}
    how = chance.choice(["signal", "signal", "end", "end", "freeze", "freeze and kill", "cast"])
    if how == "end":
        end = chance.choice(sorted(ENDS))
        return {"do": "end", "how": end, **place}, ENDS[end].format(f"P{target.number}", target.rank)
    if how == "freeze":
        return {"do": "freeze", **place}, ""
    signal = chance.choice(sorted(SIGNALS)) if how == "signal" else "SIGKILL"
    return {"do": how, "signal": signal, **place}, f"kill P{target.number} {target.rank} {SIGNALS[signal]}"


def _actor_fault(chance: random.Random, target: _Target) -> tuple[dict[str, Any], str]:
    place = {"number": target.number, "rank": target.rank}
    if chance.random() < 0.2:
        return {"do": "raise at a caller", "how": chance.choice(EXCEPTIONS[:2]), **place}, ""
    return {"do": "fail", "how": chance.choice(EXCEPTIONS), **place}, f"fail A{target.number} {target.rank}"


def _spawn_step(chance: random.Random, target: _Target, schedule: Schedule) -> Step:
    """A constructor that fails, or the death of processes that are just being started."""
    owner, number = target.owner, len(schedule.meshes) + len(schedule.steps)
    if chance.random() < 0.5:
        how, size = chance.choice([*EXCEPTIONS, "exit"]), schedule.meshes[target.number]["size"]
        name = f"A{number}"
        ends = [f"exit P{target.number} {r} 7" if how == "exit" else f"fail {name} {r}" for r in range(size)]
        action = {"do": "spawn failing", "owner": owner, "on": target.number, "number": number, "how": how}
        return Step([action], [f"actors {name} {owner} P{target.number} passes", " | ".join(ends)])
    size = chance.randint(1, 2)
    mesh = {"number": number, "owner": owner, "size": size, "verdict": "passes"}
    action = {"do": "kill starting", "rank": chance.randrange(size), **mesh}
    return Step([action], [*_spawn_events(mesh), f"kill P{number} {action['rank']} 9"])


def _stop_step(chance: random.Random, target: _Target, schedule: Schedule) -> Step:
    """An orderly stop, perhaps with a death in the middle of it.

    Not of actors alone whose owner would make their process again: whoever calls them there waits for half a minute, in
    case that they are made again, too.
    """
    owner = target.owner
    verdict = schedule.verdict if owner == "client" else schedule.meshes[int(owner[1:].split(".")[0])]["verdict"]
    name = f"P{target.number}" if verdict == "respawns" else f"{target.kind}{target.number}"
    action = {"do": "stop", "mesh": name, "number": target.number, "rank": target.rank, "kill": chance.random() < 0.5}
    if action["kill"]:
        return Step([action], [f"stop {name} | kill P{target.number} {target.rank} 9"])
    return Step([action], [f"stop {name}"])
