"""What the views and copies of one mesh share in a process."""

from __future__ import annotations

from monarch._actor.causes import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

    from monarch._actor.causes import Cause
    from monarch._actor.failure import MeshFailure
    from monarch._actor.future import Awaited, Future
    from monarch._actor.recovery.restarter import Restarter
    from monarch._actor.shape import Extent, Point, Region


class MeshRoot:
    """A mesh of actors or processes as it was made. Its members are named by their ranks in the process mesh."""

    __slots__ = ("__weakref__", "identity", "name", "processes", "region", "restarter", "stopped", "stopping")

    member = "member"  # what to call one of them

    def __init__(self, identity: bytes, name: str, region: Region, processes: Region) -> None:
        self.identity = identity
        self.name = name
        self.region = region  # the members, over process ranks
        self.processes = processes  # all processes of the process mesh
        self.stopped: str | None = None  # the reason, once it is known here that the mesh was stopped
        self.stopping: Future[None] | None = None
        self.restarter: Restarter | None = None  # takes failures before its owner does

    def reference(self) -> Any:
        """The whole mesh as a value that can be used but not stopped."""
        raise NotImplementedError

    @property
    def unique_name(self) -> str:
        """The name with a suffix that no other mesh has."""
        return f"{self.name}-{self.identity.hex()[:12]}"

    def place(self, rank: int) -> str:
        """One member in words: `actor trainers[gpus=1]`."""
        if not self.region.contains_base_rank(rank):
            return f"{self.member} {self.name}"
        return f"{self.member} {place(self.name, self.region.point_of_base_rank(rank))}"

    def positions(self, ranks: Iterable[int | Point] | None) -> tuple[int, ...]:
        """Positions in this mesh, given by number or point; all of them for None. `IndexError` for one it lacks."""
        if ranks is None:
            return tuple(range(len(self.region)))
        positions = sorted({rank if isinstance(rank, int) else rank.rank for rank in ranks})
        for position in positions:
            if not 0 <= position < len(self.region):
                raise IndexError(f"{self.name!r} has no rank {position}: it has {len(self.region)} members")
        return tuple(positions)

    def failure(self, cause: Cause, ranks: Iterable[int]) -> MeshFailure:
        """The failure of some members, as the owner learns it."""
        points = [
            self.region.point_of_base_rank(rank) for rank in sorted(ranks) if self.region.contains_base_rank(rank)
        ]
        return cause.failure(self.name, self.unique_name, points, self.reference())

    def raise_stopped(self, subject: Awaited) -> NoReturn:
        """Raise what a call to the mesh gets after it was stopped."""
        from monarch._actor.errors import SupervisionError

        text = f"Endpoint call {subject.label}() failed: mesh {self.name!r} was stopped: {self.stopped}"
        raise SupervisionError(text, endpoint=subject.label)


class Subject:
    """What a future waits for: in words, who answers, and whose death would matter."""

    __slots__ = ("extent", "label", "root", "work")

    def __init__(self, label: str, extent: Extent, root: MeshRoot, work: str = "") -> None:
        self.label = label
        self.extent = extent
        self.root = root
        self.work = work  # what is being done to members one by one: continued by the name of the mesh

    def is_answered_here(self, replies: Any) -> bool:
        """Whether an answer is missing that only the actor which waits can give."""
        return False
