"""The results of a call to a mesh, one for each rank."""

from __future__ import annotations

from collections.abc import Mapping

from .generics import Generic, TypeVar
from .mesh_trait import Shaped, member_rank, points
from .shape import Extent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from typing_extensions import Self

    from .shape import Point, Region, Shape

R = TypeVar("R")


class ValueMesh(Shaped, Generic[R]):
    """Values by rank. Iterates over `(Point, value)` pairs; `mesh[rank]` and `mesh[{"gpus": 1}]` give values.

    Views share their values. Equality is identity. Raises `ValueError` when there is not one value for each rank.
    """

    def __init__(self, shape: Shape | Extent | Region, values: Iterable[R]) -> None:
        self._set(shape, list(values), {})

    @classmethod
    def _lazy(cls, shape: Shape | Extent | Region, thunks: Sequence[Callable[[], R]]) -> Self:
        """A mesh whose values are computed at their first access; one that raises does so at each access."""
        mesh = cls.__new__(cls)
        mesh._set(shape, [_UNSET] * len(thunks), dict(enumerate(thunks)))
        return mesh

    @classmethod
    def from_indexed(cls, shape: Shape | Extent | Region, pairs: Iterable[tuple[int, R]]) -> Self:
        """From `(rank, value)` pairs in any order. Raises `ValueError` unless each rank comes exactly once."""
        pairs = sorted(pairs, key=lambda pair: pair[0])
        ranks = [rank for rank, _ in pairs]
        expected = _extent(shape).nelements
        if ranks != list(range(expected)):
            raise ValueError(f"expected the ranks 0 to {expected - 1}, each once, but got {ranks}")
        return cls(shape, [value for _, value in pairs])

    def _set(self, shape: Shape | Extent | Region, values: list[R], thunks: dict[int, Callable[[], R]]) -> None:
        extent = _extent(shape)
        if len(values) != extent.nelements:
            raise ValueError(f"expected {extent.nelements} ranks, but contains {len(values)} ranks")
        self._view = extent.region
        self._decoded = values
        self._thunks = thunks  # by index into `_decoded`, of the values which nobody has looked at

    @property
    def _region(self) -> Region:
        return self._view

    def _with_region(self, region: Region) -> Self:
        view = type(self).__new__(type(self))
        view._view, view._decoded, view._thunks = region, self._decoded, self._thunks
        return view

    def _value(self, base_rank: int) -> R:
        thunk = self._thunks.get(base_rank)
        if thunk is not None:
            self._decoded[base_rank] = thunk()
            self._thunks.pop(base_rank, None)
        return self._decoded[base_rank]

    def item(self, **coords: int) -> R:
        """The value at coordinates; raises `KeyError` unless each dimension is named, `IndexError` out of range."""
        return self[coords]

    def get(self, rank: int) -> R:
        """The value of a rank; raises `ValueError` when there is no such rank."""
        if not 0 <= rank < len(self._view):
            raise ValueError(f"rank {rank} is out of range for a mesh of {len(self._view)} ranks")
        return self._value(self._view.base_rank(rank))

    def values(self) -> Iterator[R]:
        """The values in rank order."""
        return map(self._value, self._view.ranks())

    def items(self) -> Iterator[tuple[Point, R]]:
        """Position and value, in rank order."""
        return zip(points(self._view), self.values(), strict=True)

    def __iter__(self) -> Iterator[tuple[Point, R]]:
        return self.items()

    def __getitem__(self, where: int | Mapping[str, int]) -> R:
        """The value of a rank (negative ones count from the end) or at coordinates; `IndexError` out of range."""
        return self._value(member_rank(self._view, where))

    def __repr__(self) -> str:
        return f"ValueMesh({self._view.extent}, [" + ", ".join(f"({p}, {v!r})" for p, v in self) + "])"

    def _repr_html_(self) -> str:
        from monarch._actor import html

        return html.value_mesh(self)

    def __reduce__(self) -> tuple[type[Self], tuple[Extent, list[R]]]:
        return type(self), (self._view.extent, list(self.values()))


def _extent(shape: Shape | Extent | Region) -> Extent:
    return shape if isinstance(shape, Extent) else shape.extent


# Stands for a value that is still in its thunk; never seen outside.
_UNSET: Any = None
