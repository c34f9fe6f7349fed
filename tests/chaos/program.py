"""A program that meets schedules of faults, one after the other.

    python program.py DIRECTORY < SCHEDULES

Reads one schedule a line, and prints a line for each step of each: how everything looked when it had come to rest. Ends
as the last schedule says.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import monarch.actor
from members import BEATEN, Family, Member, cause_of, note
from monarch._actor.context import process
from monarch.actor import ActorError, MeshFailure, SupervisionError, this_host
from states import View

# Nothing takes that long, not on a busy machine either.
PATIENCE_S = 30.0


class Program:
    """One schedule, played."""

    def __init__(self, schedule: dict[str, Any], directory: Path) -> None:
        directory.mkdir()
        self.schedule = schedule
        self.directory = directory
        self.family = Family(str(directory))
        self.meshes: dict[str, Any] = {}  # all, also what actors own
        self.owners: dict[str, str] = {}
        self.events: list[str] = list(schedule["events"])
        self.pending: list[Any] = []
        self.pids: set[int] = set()

    # --- making -------------------------------------------------------------------------------------------------------

    def hear(self, failure: MeshFailure) -> None:
        """In place of `unhandled_fault_hook`."""
        note(str(self.directory), "client", failure)
        if self.schedule["verdict"] == "passes":
            DEFAULT_HOOK(failure)
        if self.schedule["verdict"] == "respawns":
            for step in self.family.recover(failure):
                with contextlib.suppress(BEATEN):
                    step().get(timeout=PATIENCE_S)

    def build(self) -> None:
        monarch.actor.unhandled_fault_hook = self.hear
        for mesh in self.schedule["meshes"]:
            self.spawn(mesh)
            self.meshes[f"A{mesh['number']}"].pid.call().get(timeout=PATIENCE_S)

    def spawn(self, mesh: dict[str, Any]) -> None:
        owner = mesh["owner"]
        if owner == "client":
            made = self.family.spawn(this_host(), mesh)
        else:
            made = self.actor(owner).own.call_one(mesh).get(timeout=PATIENCE_S)
        self.meshes.update(made)
        for name in made:
            self.owners[name] = owner

    def actor(self, place: str) -> Any:
        name, rank = place.split(".")
        return self.meshes[name].slice(r=int(rank))

    # --- faults -------------------------------------------------------------------------------------------------------

    def play(self, step: dict[str, Any]) -> None:
        """All actions of a step, without a wait in between."""
        frozen = [self.signal(action, signal.SIGSTOP) for action in step["actions"] if action["do"] == "freeze"]
        for action in step["actions"]:
            getattr(self, f"do_{action['do'].replace(' ', '_')}")(action)
        for pid in filter(None, frozen):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.events += step["events"]

    def signal(self, action: dict[str, Any], number: int) -> int:
        """Signal a process from outside; its id, 0 where it is dead."""
        pid = self.pid_of(f"P{action['number']}", action["rank"])
        if pid:
            self.pending.append(self.meshes[f"S{action['number']}"].pid.call())
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return 0
        return pid

    def pid_of(self, name: str, rank: int) -> int:
        """0 where it is dead, or not known yet."""
        pids = process().runtime.pids(self.meshes[name]._root.mesh)
        self.pids.update(filter(None, pids))
        return pids[rank] if rank < len(pids) else 0

    def do_nothing(self, action: dict[str, Any]) -> None:
        pass

    def do_freeze(self, action: dict[str, Any]) -> None:
        self.pending.append(self.meshes[f"S{action['number']}"].pid.call())

    def do_signal(self, action: dict[str, Any]) -> None:
        self.signal(action, signal.Signals[action["signal"]])

    def do_freeze_and_kill(self, action: dict[str, Any]) -> None:
        self.signal(action, signal.SIGSTOP)
        self.signal(action, signal.SIGKILL)

    def do_cast(self, action: dict[str, Any]) -> None:
        mesh = self.meshes[f"S{action['number']}"]
        for cast in range(100):
            mesh.count.broadcast()
            if cast == 50:
                self.signal(action, signal.SIGKILL)

    def do_end(self, action: dict[str, Any]) -> None:
        self.actor(f"S{action['number']}.{action['rank']}").do.broadcast(action["how"])

    def do_fail(self, action: dict[str, Any]) -> None:
        actor = self.actor(f"A{action['number']}.{action['rank']}")
        self.pending.append(actor.pid.call_one())
        actor.do.broadcast(action["how"])

    def do_raise_at_a_caller(self, action: dict[str, Any]) -> None:
        self.pending.append(self.actor(f"A{action['number']}.{action['rank']}").do.call_one(action["how"]))

    def do_spawn_failing(self, action: dict[str, Any]) -> None:
        name, procs, owner = f"A{action['number']}", f"P{action['on']}", action["owner"]
        if owner == "client":
            mesh = self.family.spawn_actors(name, procs, Member, {"init": action["how"]})
        else:
            mesh = self.actor(owner).own_failing.call_one(name, procs, action["how"]).get(timeout=PATIENCE_S)
        self.meshes[name] = mesh
        self.owners[name] = owner

    def do_kill_starting(self, action: dict[str, Any]) -> None:
        self.spawn(action)
        name = f"P{action['number']}"
        wait_until(lambda: self.pid_of(name, action["rank"]))
        self.signal(action, signal.SIGKILL)

    def do_stop(self, action: dict[str, Any]) -> None:
        name = action["mesh"]
        if self.owners[name] == "client":
            self.pending.append(self.meshes[name].stop())
        else:
            self.pending.append(self.actor(self.owners[name]).stop_owned.call_one(name))
        if action["kill"]:
            self.signal(action, signal.SIGKILL)

    # --- looking ------------------------------------------------------------------------------------------------------

    def come_to_rest(self, step: dict[str, Any]) -> tuple[list[str], bool]:
        """How everything looks when it looks right twice in a row, or when patience has ended."""
        view = View(self.events)
        expected = [view.of(state) for state in step["expected"]]
        until = time.monotonic() + PATIENCE_S
        right = 0
        while True:
            seen = self.look()
            right = right + 1 if view.of(seen) in expected else 0
            if right == 2 or time.monotonic() > until:
                break
            time.sleep(0.01)
        for future in self.pending:
            try:
                future.exception(timeout=PATIENCE_S)
            except TimeoutError:
                seen.append("a call is not answered")
                right = 0
        self.pending.clear()
        return seen, right == 2

    def look(self) -> list[str]:
        """Everything in the words of the state machine."""
        asked = []
        for name, mesh in self.meshes.items():
            for rank in range(len(mesh)):
                try:
                    member = mesh.slice(r=rank)
                    asked.append((f"{name}.{rank}", member.initialized if name[0] == "P" else member.pid.call_one()))
                except SupervisionError as error:
                    asked.append((f"{name}.{rank}", error))
        lines = ["client lives", *(f"{member} {state_of(answer)}" for member, answer in asked)]
        for name in self.meshes:
            if name[0] == "P":
                self.pid_of(name, 0)
        heard = self.directory / "heard"
        lines += [f"heard {line}" for line in heard.read_text().splitlines()] if heard.exists() else []
        return lines

    # --- the end ------------------------------------------------------------------------------------------------------

    def stop(self) -> list[int]:
        """Stop everything; the processes that are left."""
        for stop in [mesh.stop() for name, mesh in self.family.meshes.items() if name[0] == "P"]:
            with contextlib.suppress(ActorError):  # of a `__cleanup__` that raises on purpose
                stop.get(timeout=PATIENCE_S)
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not any(map(is_alive, self.pids)))
        return [pid for pid in self.pids if is_alive(pid)]


DEFAULT_HOOK = monarch.actor.unhandled_fault_hook


def state_of(answer: Any) -> str:
    """What an answer says about the one who was asked."""
    if not isinstance(answer, SupervisionError):
        try:
            answer = answer.exception(timeout=PATIENCE_S)
        except TimeoutError:
            return "silent"
    if answer is None:
        return "lives"
    if not isinstance(answer, SupervisionError):
        return f"raised {answer!r}"
    return f"dead {cause_of(answer.failure)}" if answer.failure is not None else "stopped"


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Any) -> None:
    """Of what there is no event here."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.002)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def end(how: str) -> None:
    """As the last schedule says."""
    if how == "exception":
        raise RuntimeError("on purpose")
    if how == "os._exit":
        os._exit(3)
    if how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[how])
        time.sleep(PATIENCE_S)


def main(directory: Path) -> None:
    for index, line in enumerate(sys.stdin):
        schedule = json.loads(line)
        program = Program(schedule, directory / str(index))
        program.build()
        for number, step in enumerate(schedule["steps"]):
            program.play(step)
            if schedule["last"] not in ("", "end", "failure") and step is schedule["steps"][-1]:
                end(schedule["last"])
            if all(state[0] != "client lives" for state in step["expected"]):
                time.sleep(PATIENCE_S)  # the failure ends this
            seen, right = program.come_to_rest(step)
            say(schedule=index, step=number, right=right, seen=seen)
        say(schedule=index, left=program.stop())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
