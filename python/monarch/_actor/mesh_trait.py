"""What every mesh can do: be sliced, reshaped, renamed, measured, and, where it has members, walked through.

The framework itself works on `mesh._region` and `mesh._with_region`, never on the public names: on an actor mesh an
endpoint may have any of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from .shape import Point, Region

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeVar

    from typing_extensions import Self

    from .shape import Extent, Selector, Slice

    M = TypeVar("M", bound="MeshTrait")


class Shaped:
    """Views of something with named dimensions. A view shares what it shows."""

    @property
    def _region(self) -> Region:
        """Which base ranks this view shows."""
        raise NotImplementedError

    def _with_region(self, region: Region) -> Self:
        """Another view of the same root."""
        raise NotImplementedError

    def slice(self, **dims: Selector) -> Self:
        """Select by dimension: an int removes the dimension; a slice or a list of indexes keeps it.

        Ranks of the result are numbered from 0. Raises `TypeError` for an unknown dimension, `IndexError` for an
        index out of range, `ValueError` for an empty range or a negative step.
        """
        return self._with_region(_select(self._region, dims))

    def split(self, **factors: int | Sequence[str]) -> Self:
        """Factor dimensions: `split(gpus=("node", "local"), local=4)`. One size of each group may be left out."""
        return self._with_region(self._region.split(**factors))

    def flatten(self, name: str) -> Self:
        """One dimension `name` over all ranks in their order."""
        return self._with_region(self._region.flatten(name))

    def rename(self, **names: str) -> Self:
        """The same view with other labels: `rename(old="new")`."""
        return self._with_region(self._region.rename(**names))

    def size(self, dim: str | Sequence[str] | None = None) -> int:
        """Number of ranks, or the (product of) sizes of the dimensions; raises `KeyError` for an unknown one."""
        extent = self._region.extent
        if dim is None:
            return extent.nelements
        return extent[dim] if isinstance(dim, str) else prod(extent[label] for label in dim)

    @property
    def sizes(self) -> dict[str, int]:
        """Size of each dimension."""
        return dict(self._region.extent)

    @property
    def extent(self) -> Extent:
        return self._region.extent

    @property
    def _labels(self) -> tuple[str, ...]:
        return self._region.labels

    @property
    def _ndslice(self) -> Slice:
        return self._region.slice()

    def __len__(self) -> int:
        return len(self._region)


class MeshTrait(Shaped):
    """A mesh of members. A member is the mesh without dimensions that shows one rank."""

    def items(self) -> Iterator[tuple[Point, Self]]:
        """Position and member, in rank order."""
        return zip(points(self._region), members(self), strict=True)

    def item(self, **coords: int) -> Self:
        """The member at coordinates; raises `KeyError` unless each dimension is named, `IndexError` out of range."""
        return self._with_region(Region.of_rank(self._region.at(coords)))

    def __iter__(self) -> Iterator[Self]:
        return members(self)

    def __getitem__(self, where: int | Mapping[str, int]) -> Self:
        """The member at a rank (negative ones count from the end) or at coordinates."""
        return self._with_region(Region.of_rank(member_rank(self._region, where)))


def members(mesh: M) -> Iterator[M]:
    """The members of a mesh, in rank order."""
    return (mesh._with_region(Region.of_rank(base)) for base in mesh._region.ranks())


def member_rank(region: Region, where: int | Mapping[str, int]) -> int:
    """Base rank of one member, given by its rank in the region or by its coordinates."""
    if isinstance(where, Mapping):
        return region.at(where)
    if not -len(region) <= where < len(region):
        raise IndexError(f"rank {where} is out of range for a mesh of {len(region)} ranks")
    return region.base_rank(where % len(region))


def points(region: Region) -> Iterator[Point]:
    """The positions in a region, in rank order."""
    return (Point(rank, region.extent) for rank in range(len(region)))


def _select(region: Region, dims: Mapping[str, Selector]) -> Region:
    for label, selector in dims.items():
        region = region.select(label, selector)
    return region
