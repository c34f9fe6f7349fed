"""What notebooks show of meshes, values and futures: plain tables in the notebook's own colours, light or dark."""

from __future__ import annotations

from html import escape

from monarch._actor import context
from monarch._actor.description import (
    actor_ends,
    host_ends,
    host_names,
    in_words,
    proc_ends,
    ranked_points,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from monarch._actor.actor_mesh import ActorMesh
    from monarch._actor.future import Future
    from monarch._actor.host_mesh import HostMesh
    from monarch._actor.proc_mesh import ProcMesh
    from monarch._actor.shape import Point, Region
    from monarch._actor.value_mesh import ValueMesh

# So many rows or columns are shown.
_MOST = 32

# So much of a value is shown.
_LONGEST_VALUE = 200


def host_mesh(hosts: HostMesh) -> str:
    root, region = hosts._root, hosts._region
    names = dict(zip(region.ranks(), hosts._names(), strict=True))
    members = _members(region, [("host", names)], host_ends(hosts), root.stopped)
    return _titled("HostMesh", root.name, region, "", members)


def proc_mesh(procs: ProcMesh) -> str:
    root, region = procs._root, procs._region
    process = context._process
    pids = process.runtime.pids(root.mesh) if process is not None else []
    columns = [
        ("host", {rank: root.host_of(rank)._names()[0] for rank in region.ranks()}),
        ("pid", {rank: str(pids[rank]) for rank in region.ranks() if rank < len(pids) and pids[rank]}),
    ]
    members = _members(region, columns, proc_ends(root, region), root.stopped)
    return _titled("ProcMesh", root.name, region, "", members)


def actor_mesh(actors: ActorMesh) -> str:
    root, region = actors._root, actors._region
    hosts = in_words(host_names(root.procs._root, region))
    kind = f"of <b>{escape(root.actor_class.__qualname__)}</b> on {escape(hosts)}"
    members = _members(region, [], actor_ends(root, region), root.stopped)
    return _titled("ActorMesh", root.name, region, kind, members)


def value_mesh(values: ValueMesh[Any]) -> str:
    region = values._region
    title = f"<div>ValueMesh {escape(str(region.extent))}</div>"
    if len(region.extent.sizes) == 2:
        return title + _grid(values)
    rows = [[*map(str, _coordinates(point)), _shown(value)] for point, value in _first(values.items())]
    return title + _table([*region.labels, "value"], rows, len(region))


def future(waited: Future[Any]) -> str:
    title = f"<div>Future of <b>{escape(waited._subject.label)}</b>: {escape(waited._describe_state())}</div>"
    expected = waited._replies.expected
    if waited.done() or expected < 2:
        return title
    return f'{title}<progress value="{expected - len(waited._replies.pending())}" max="{expected}"></progress>'


def _titled(kind: str, name: str, region: Region, more: str, members: str) -> str:
    return f"<div>{kind} <b>{escape(name)}</b> {escape(str(region.extent))} {more}</div>{members}"


def _members(
    region: Region, columns: Sequence[tuple[str, dict[int, str]]], ends: dict[int, str], stopped: str | None
) -> str:
    """A row for each member; if there are many, for those that have ended before others."""
    members = list(enumerate(ranked_points(region)))
    if len(members) > _MOST:
        members.sort(key=lambda member: member[1][0] not in ends)
    rows = []
    for rank, (base, point) in _first(members):
        state = f"stopped: {stopped}" if stopped is not None else ends.get(base, "alive")
        mark = "●" if state == "alive" else "✕"
        cells = [cell.get(base, "") for _, cell in columns]
        rows.append([str(rank), *map(str, _coordinates(point)), *cells, f"{mark} {state}"])
    return _table(["rank", *region.labels, *(title for title, _ in columns), "state"], rows, len(members))


def _grid(values: ValueMesh[Any]) -> str:
    """Two dimensions as rows and columns."""
    (down, across), (height, width) = values._region.extent.labels, values._region.extent.sizes
    columns = range(min(width, _MOST))
    rows = [
        [str(row), *(_shown(values.get(row * width + column)) for column in columns)]
        for row in range(min(height, _MOST))
    ]
    return _table([f"{down} \\ {across}", *map(str, columns)], rows, height, width)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], count: int, width: int = 0) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    left = [f"{count - len(rows)} more rows"] * (count > len(rows))
    left += [f"{width - _MOST} more columns"] * (width > _MOST)
    rest = f"<div>and {' and '.join(left)}</div>" if left else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _first(items: Iterable[Any]) -> list[Any]:
    from itertools import islice

    return list(islice(items, _MOST))


def _coordinates(point: Point) -> list[int]:
    return [point[label] for label in point]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
