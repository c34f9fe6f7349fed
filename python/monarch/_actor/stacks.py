"""`dump_stacks`: what every thread of every rank is doing, also while an interpreter is busy."""

from __future__ import annotations

import re
from itertools import dropwhile

from monarch import _native
from monarch._actor.causes import Cause
from monarch._actor.context import process, sender
from monarch._actor.generics import TypeVar
from monarch._actor.mesh_root import Subject
from monarch._actor.proc_mesh import known_roots
from monarch._actor.promise import Promise
from monarch._actor.shape import Extent, Point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from monarch._actor.future import Future
    from monarch._actor.host_mesh import HostMesh
    from monarch._actor.proc_mesh import ProcMeshRoot
    from monarch._actor.shape import Region

    Frame = tuple[str, int, str]
    Thread = tuple[str, tuple[Frame, ...]]

T = TypeVar("T")

# The line above each thread, as `faulthandler` writes it.
_HEADING = "(most recent call first):"
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?+) in (.*)')

# Files of the standard library that only call what runs.
_CALLERS = ("/threading.py", "/asyncio/base_events.py", "/asyncio/events.py", "/asyncio/runners.py", "/selectors.py")


class Stack:
    """A Python stack, and the ranks that have a thread with it.

    `threads` are the names of those threads, as far as an interpreter was not too busy to tell them; `frames` has the
    innermost last, each as (file, line, function). As text it is without the frames in which this library calls.
    """

    __slots__ = ("frames", "ranks", "threads")

    def __init__(self, threads: tuple[str, ...], frames: tuple[Frame, ...], ranks: tuple[Point, ...]) -> None:
        self.threads = threads
        self.frames = frames
        self.ranks = ranks

    def __str__(self) -> str:
        called = list(dropwhile(_is_ours, self.frames))
        return "\n".join(_shown(*frame) for frame in called) or "  waits for messages"

    def __repr__(self) -> str:
        return f"<Stack of {self._who()}, in {self.frames[-1][2]}, of ranks {_in_words(self.ranks)}>"

    def _who(self) -> str:
        return f"thread {', '.join(self.threads)}" if self.threads else "a thread"


class StackDump:
    """What `dump_stacks` found: `stacks`, those of most ranks first, and `missing`, why a rank told nothing, by point.

    `print` it to read it.
    """

    __slots__ = ("missing", "name", "stacks")

    def __init__(self, name: str, stacks: Sequence[Stack], missing: dict[Point, str]) -> None:
        self.name = name
        self.stacks = list(stacks)
        self.missing = missing

    def __str__(self) -> str:
        parts = [f"{self.name} {_in_words(stack.ranks)}, {stack._who()}:\n{stack}" for stack in self.stacks]
        parts += [f"{self.name} {_in_words([point])}: {why}" for point, why in self.missing.items()]
        return "\n\n".join(parts)

    __repr__ = __str__


class HostStackDump:
    """What `HostMesh.dump_stacks` found: `meshes` has a `StackDump` for each mesh. `print` it to read it."""

    __slots__ = ("meshes",)

    def __init__(self, meshes: Sequence[StackDump]) -> None:
        self.meshes = list(meshes)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.meshes)) or "no processes"

    __repr__ = __str__


def ask(procs: ProcMeshRoot, subject: Subject, view: Region, timeout_s: float) -> Future[StackDump]:
    """The stacks of the processes of a view; who has not told them after `timeout_s` seconds is named."""
    return _ask([(procs, subject, view)], subject, timeout_s, lambda dumps: dumps[0])


def ask_hosts(hosts: HostMesh, timeout_s: float) -> Future[HostStackDump]:
    """The stacks of all processes on these hosts that are known here, this one included."""
    identities = set(hosts._identities())
    asked = []
    for procs in known_roots():
        ranks = [rank for rank in procs.region.ranks() if identities.intersection(procs.host_of(rank)._identities())]
        if ranks and procs.stopped is None:
            is_all = len(ranks) == len(procs.region)
            view = procs.region if is_all else procs.reference().flatten("rank").slice(rank=ranks)._region
            asked.append((procs, Subject(f"{procs.name}.dump_stacks", view.extent, procs), view))
    name = hosts._root.name
    subject = Subject(f"{name}.dump_stacks", Extent(("meshes",), (len(asked),)), hosts._root)
    return _ask(asked, subject, timeout_s, HostStackDump)


def _ask(
    asked: Sequence[tuple[ProcMeshRoot, Subject, Region]],
    whole: Subject,
    timeout_s: float,
    made: Callable[[list[StackDump]], T],
) -> Future[T]:
    if not 0 < timeout_s < float("inf"):
        raise ValueError(f"timeout is {timeout_s}: it has to be a positive, finite number of seconds")
    from monarch._actor.timers import timers
    from monarch._actor.wakeups import callback_thread

    calls = []
    for procs, subject, view in asked:
        targets = _native.Targets(process().runtime, procs.mesh, view.ranks(), _native.STACKS_ACTOR)
        calls.append((subject, view, targets.call(sender(), b"", b"", fail_fast=False)))

    def cancel() -> None:
        for _, _, replies in calls:
            replies.cancel()

    promise: Promise[T] = Promise(cancel)
    promise.replies = calls[0][2] if len(calls) == 1 else None

    def settle(late: str = "") -> None:
        arrived = [
            (subject, view, [replies.message(index) for index in range(replies.arrived)])
            for subject, view, replies in calls
        ]
        promise.settle(lambda: made([_dump(*one, late) for one in arrived]), before=cancel)

    late = f"did not answer within {timeout_s:g} s, though it is not known to be dead"
    timer = timers().after(timeout_s, lambda: settle(late))
    missing = len(calls)

    def answered() -> None:  # always on the callback thread
        nonlocal missing
        missing -= 1
        if missing == 0:
            timer.cancel()
            settle()

    for _, view, replies in calls:
        callback_thread().when_ready(replies, len(view), answered)
    return promise.future(whole)


def _dump(subject: Subject, view: Region, arrived: Sequence[_native.Message], late: str) -> StackDump:
    root = subject.root
    assert root is not None, "stacks are those of the members of a mesh"
    members = [root.place(rank) for rank in view.ranks()]
    told: dict[tuple[Frame, ...], tuple[set[str], set[int]]] = {}
    missing = {position: f"{member} {late}" for position, member in enumerate(members)}
    for message in arrived:
        threads = _parsed(message.payload.decode(errors="replace"))
        if threads:
            del missing[message.rank]
        elif message.death is not None:
            missing[message.rank] = Cause.of_death(message.death, root.processes).sentence(members[message.rank])
        else:
            missing[message.rank] = f"{members[message.rank]} is too busy, and nothing but its interpreter could tell"
        for name, frames in threads:
            names, positions = told.setdefault(frames, (set(), set()))
            positions.add(message.rank)
            names.update([name] if name else [])
    stacks = [
        Stack(tuple(sorted(names)), frames, tuple(Point(position, view.extent) for position in sorted(positions)))
        for frames, (names, positions) in told.items()
    ]
    stacks.sort(key=lambda stack: -len(stack.ranks))
    return StackDump(
        root.name, stacks, {Point(position, view.extent): why for position, why in sorted(missing.items())}
    )


def _parsed(text: str) -> list[Thread]:
    """The threads of one process that run Python code, from what `faulthandler` writes."""
    threads: list[Thread] = []
    name = ""
    frames: list[Frame] = []
    # Each thread ends where the next one begins.
    for line in [*text.splitlines(), _HEADING]:
        if line.endswith(_HEADING):
            if frames:
                threads.append((name, tuple(reversed(frames))))
            # The thread of an actor has its rank in its name, which the dump says anyway.
            name, frames = re.sub(r"\[\d+\]$", "", line.partition(" [")[2].rpartition("]")[0]), []
        elif found := _FRAME.fullmatch(line):
            frames.append((found[1], int(found[2]) if found[2].isdigit() else 0, found[3]))
    return threads


def _is_ours(frame: Frame) -> bool:
    """Whether an outer frame only calls what runs."""
    file = frame[0]
    return "/monarch/_actor/" in file or file.endswith(_CALLERS) or file == "<string>"


def _shown(file: str, line: int, function: str) -> str:
    """A frame as in a traceback; the line itself where this machine has the file."""
    import linecache

    source = linecache.getline(file, line).strip()
    return f'  File "{file}", line {line}, in {function}' + (f"\n    {source}" if source else "")


def _in_words(points: Sequence[Point]) -> str:
    """`[0-3, 7]`."""
    spans: list[list[int]] = []
    for rank in sorted(point.rank for point in points):
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return "[" + ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans) + "]"
