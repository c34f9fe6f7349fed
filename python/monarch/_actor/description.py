"""What a handle says of itself: what it is, where, and whether it is alive or why not.

From what this process knows already: nothing is sent, and nobody is waited for.
"""

from __future__ import annotations

from monarch._actor import context
from monarch._actor.causes import how_it_ended, place
from monarch._actor.mesh_trait import points

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from monarch._actor.actor_mesh import ActorMeshRoot
    from monarch._actor.host_mesh import HostMesh
    from monarch._actor.proc_mesh import ProcMeshRoot
    from monarch._actor.shape import Point, Region

# How many of a list are named before the rest is only counted.
_NAMED = 3


def in_words(names: Sequence[str]) -> str:
    """`node-1, node-2`; a long list is cut."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def host_names(procs: ProcMeshRoot, region: Region) -> list[str]:
    """The hosts of processes, each once."""
    return list(dict.fromkeys(procs.host_of(rank)._names()[0] for rank in region.ranks()))


def proc_ends(procs: ProcMeshRoot, region: Region) -> dict[int, str]:
    """Those of the processes that are known to have ended, by base rank, and how."""
    process = context._process
    if process is None:
        return {}
    return {rank: how_it_ended(death) for rank, death in process.runtime.deaths(procs.mesh, region.ranks())}


def actor_ends(actors: ActorMeshRoot, region: Region) -> dict[int, str]:
    """Those of the actors that are known to have ended, by base rank, and how."""
    known = {rank: actors.failed[rank] for rank in region.ranks() if rank in actors.failed}
    dead = proc_ends(actors.procs._root, region)
    return {**known, **{rank: f"its process {how}" for rank, how in dead.items()}}


def host_ends(hosts: HostMesh) -> dict[int, str]:
    """Those of the hosts that could not be attached, by base rank, and why not."""
    attached = hosts._root.attached
    if attached is None:
        return {}
    from monarch._native import STATUS_VALUE

    messages = [attached.message(index) for index in range(attached.arrived)]
    failed = {m.rank: m.payload.decode() for m in messages if m.status != STATUS_VALUE}
    return {rank: f"is not attached: {failed[rank]}" for rank in hosts._region.ranks() if rank in failed}


def state(stopped: str | None, region: Region, ends: dict[int, str]) -> str:
    """What follows the name of a mesh: nothing where all is well."""
    if stopped is not None:
        return f", stopped: {stopped}"
    if not ends:
        return ""
    first, how = next((point, ends[rank]) for rank, point in ranked_points(region) if rank in ends)
    who = f"{place('', first)} " if len(first) else ""
    rest = len(ends) - 1
    more = f", and {rest} more" if rest else ""
    return f", {len(ends)} of {len(region)} dead: {who}{how}{more}"


def ranked_points(region: Region) -> list[tuple[int, Point]]:
    """Base rank and position of each member."""
    return list(zip(region.ranks(), points(region), strict=True))
