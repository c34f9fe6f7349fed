"""Geometry of meshes: named dimensions, positions in them, and views.

Ranks are row-major over the labels in their order: the last label varies fastest. An `Extent` knows sizes only. A
`Region` also knows which *base ranks* (ranks of the root that it is a view of) it selects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from operator import index as to_int

from .generics import overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import SupportsIndex, TypeAlias

    # What `select` takes for one dimension. An int removes the dimension; the others keep it.
    Selector: TypeAlias = SupportsIndex | slice | Sequence[int]
    # Distances from the first base rank, one for each index of a dimension: a stride or an index list.
    Axis: TypeAlias = range | tuple[int, ...]


class Extent(Mapping[str, int]):
    """Labels and sizes of the dimensions of a mesh; a mapping from label to size. Immutable.

    Raises `ValueError` for repeated labels, sizes below 1, and sequences of different lengths.
    """

    __slots__ = ("_labels", "_nelements", "_sizes")

    def __init__(self, labels: Sequence[str], sizes: Sequence[int]) -> None:
        self._labels = tuple(labels)
        self._sizes = tuple(map(to_int, sizes))
        self._nelements = prod(self._sizes)
        if len(self._labels) != len(self._sizes):
            raise ValueError(f"{len(self._labels)} labels {self._labels} for {len(self._sizes)} sizes {self._sizes}")
        _refuse_repeated(self._labels)
        for label, size in zip(self._labels, self._sizes, strict=True):
            if size < 1:
                raise ValueError(f"dimension {label!r} has size {size}: sizes are at least 1")

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    @property
    def sizes(self) -> tuple[int, ...]:
        return self._sizes

    @property
    def nelements(self) -> int:
        """Number of ranks: the product of the sizes."""
        return self._nelements

    @property
    def region(self) -> Region:
        """The whole of a root with this extent."""
        return Region(self._labels, Slice.new_row_major(self._sizes))

    def __getitem__(self, label: str) -> int:
        try:
            return self._sizes[self._labels.index(label)]
        except ValueError:
            raise KeyError(label) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Extent):
            return NotImplemented
        return self._labels == other._labels and self._sizes == other._sizes

    def __hash__(self) -> int:
        return hash((self._labels, self._sizes))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{label}: {size}" for label, size in zip(self._labels, self._sizes, strict=True)) + "}"

    def __repr__(self) -> str:
        return f"Extent({self._labels!r}, {self._sizes!r})"

    def __reduce__(self) -> tuple[type[Extent], tuple[tuple[str, ...], tuple[int, ...]]]:
        return Extent, (self._labels, self._sizes)


class Point(Mapping[str, int]):
    """A position in an extent; a mapping from label to coordinate. Immutable.

    Raises `ValueError` when `rank` is not a rank of `extent`.
    """

    __slots__ = ("_extent", "_rank")

    def __init__(self, rank: int, extent: Extent) -> None:
        if not 0 <= rank < extent._nelements:
            raise ValueError(f"rank {rank} is out of range for extent {extent} of {extent.nelements} ranks")
        self._rank = rank
        self._extent = extent

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def extent(self) -> Extent:
        return self._extent

    def size(self, label: str) -> int:
        """Size of dimension `label`; raises `KeyError` where there is none."""
        return self._extent[label]

    def __getitem__(self, label: str) -> int:
        try:
            position = self._extent._labels.index(label)
        except ValueError:
            raise KeyError(label) from None
        sizes = self._extent._sizes
        return self._rank // prod(sizes[position + 1 :]) % sizes[position]

    def __iter__(self) -> Iterator[str]:
        return iter(self._extent._labels)

    def __len__(self) -> int:
        return len(self._extent._labels)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Point):
            return NotImplemented
        return self._rank == other._rank and self._extent == other._extent

    def __hash__(self) -> int:
        return hash((self._rank, self._extent))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{label!r}: {self[label]}/{self.size(label)}" for label in self) + "}"

    def __repr__(self) -> str:
        return f"Point({self._rank}, {self._extent!r})"

    def __reduce__(self) -> tuple[type[Point], tuple[int, Extent]]:
        return Point, (self._rank, self._extent)


class Slice(Sequence[int]):
    """A strided set of integers: `offset + sum(coordinate * stride)`, in row-major order of the coordinates. Immutable.

    Raises `ValueError` when sizes and strides differ in number or a size is negative.
    """

    __slots__ = ("_offset", "_sizes", "_strides")

    def __init__(self, *, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> None:
        self._offset = to_int(offset)
        self._sizes = tuple(map(to_int, sizes))
        self._strides = tuple(map(to_int, strides))
        if len(self._sizes) != len(self._strides):
            raise ValueError(f"{len(self._sizes)} sizes {self._sizes} for {len(self._strides)} strides {self._strides}")
        if min(self._sizes, default=0) < 0:
            raise ValueError(f"negative size in {self._sizes}")

    @staticmethod
    def new_row_major(sizes: Sequence[int]) -> Slice:
        """All ranks of an array of these sizes."""
        sizes = tuple(sizes)
        return Slice(offset=0, sizes=sizes, strides=[prod(sizes[i + 1 :]) for i in range(len(sizes))])

    @staticmethod
    def from_list(values: Sequence[int]) -> list[Slice]:
        """One-dimensional slices which yield `values` when read one after the other."""
        slices = []
        start = 0
        while start < len(values):
            end = start + 1
            stride = values[end] - values[start] if end < len(values) else 1
            while end < len(values) and values[end] - values[end - 1] == stride:
                end += 1
            slices.append(Slice(offset=values[start], sizes=[end - start], strides=[stride]))
            start = end
        return slices

    @property
    def ndim(self) -> int:
        return len(self._sizes)

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def sizes(self) -> tuple[int, ...]:
        return self._sizes

    @property
    def strides(self) -> tuple[int, ...]:
        return self._strides

    def get(self, index: int) -> int:
        """The value at `index`; raises `IndexError` when out of range."""
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} is out of range for a slice of {len(self)} values")
        value = self._offset
        for size, stride in zip(reversed(self._sizes), reversed(self._strides), strict=True):
            index, coordinate = divmod(index, size)
            value += coordinate * stride
        return value

    def nditem(self, coordinates: Sequence[int]) -> int:
        """The value at `coordinates`, one for each dimension; raises `IndexError` when one is out of range."""
        if len(coordinates) != self.ndim:
            raise ValueError(f"{len(coordinates)} coordinates for {self.ndim} dimensions")
        for coordinate, size in zip(coordinates, self._sizes, strict=True):
            if not 0 <= coordinate < size:
                raise IndexError(f"coordinate {coordinate} is out of range for a dimension of size {size}")
        return self._offset + sum(c * stride for c, stride in zip(coordinates, self._strides, strict=True))

    def coordinates(self, value: int) -> list[int]:
        """Coordinates of `value`; raises `ValueError` when it is not contained."""
        try:
            remainder = self.index(value)
        except ValueError:
            raise ValueError(f"{value} is not contained in {self!r}") from None
        result = []
        for size in reversed(self._sizes):
            remainder, coordinate = divmod(remainder, size)
            result.append(coordinate)
        return result[::-1]

    def __len__(self) -> int:
        return prod(self._sizes)

    def __iter__(self) -> Iterator[int]:
        return iter(_enumerate(self._offset, list(map(_multiples, self._sizes, self._strides))))

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...  # noqa: F811 (the linter knows typing's own only)
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:  # noqa: F811
        if isinstance(index, slice):
            return tuple(map(self.get, range(len(self))[index]))
        return self.get(index + len(self) if index < 0 else index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slice):
            return NotImplemented
        return self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self._offset, self._sizes, self._strides))

    def __repr__(self) -> str:
        return f"Slice(offset={self._offset}, sizes={self._sizes}, strides={self._strides})"

    def __reduce__(self) -> tuple[object, tuple[int, tuple[int, ...], tuple[int, ...]]]:
        return _slice, (self._offset, self._sizes, self._strides)


NDSlice = Slice


class Shape:
    """Labels and the strided base ranks behind them. Immutable; raises `ValueError` for an unknown label or index."""

    __slots__ = ("_labels", "_slice")

    def __init__(self, labels: Sequence[str], slice: Slice) -> None:
        self._labels = tuple(labels)
        self._slice = slice
        if len(self._labels) != slice.ndim:
            raise ValueError(f"{len(self._labels)} labels {self._labels} for {slice.ndim} dimensions")
        _refuse_repeated(self._labels)

    @staticmethod
    def unity() -> Shape:
        """The shape without dimensions: rank 0."""
        return Shape((), Slice(offset=0, sizes=(), strides=()))

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    @property
    def ndslice(self) -> Slice:
        return self._slice

    @property
    def extent(self) -> Extent:
        return Extent(self._labels, self._slice.sizes)

    @property
    def region(self) -> Region:
        return Region(self._labels, self._slice)

    def at(self, label: str, index: int) -> Shape:
        """The sub-shape at one index of dimension `label`, which vanishes."""
        try:
            return self.region.select(label, index).as_shape()
        except (IndexError, TypeError) as error:
            raise ValueError(str(error)) from None

    def select(self, label: str, selection: slice) -> Shape:
        """The sub-shape of a range of dimension `label`, which stays."""
        try:
            return self.region.select(label, selection).as_shape()
        except TypeError as error:
            raise ValueError(str(error)) from None

    def index(self, **coordinates: int) -> int:
        """Base rank at coordinates, one for each label."""
        if set(coordinates) != set(self._labels):
            raise ValueError(f"coordinates {tuple(coordinates)} for dimensions {self._labels}")
        try:
            return self._slice.nditem([coordinates[label] for label in self._labels])
        except IndexError as error:
            raise ValueError(str(error)) from None

    def coordinates(self, rank: int) -> dict[str, int]:
        """Coordinates of a base rank."""
        return dict(zip(self._labels, self._slice.coordinates(rank), strict=True))

    def ranks(self) -> list[int]:
        """Base ranks, row-major."""
        return list(self._slice)

    def __len__(self) -> int:
        return len(self._slice)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape):
            return NotImplemented
        return self._labels == other._labels and self._slice == other._slice

    def __hash__(self) -> int:
        return hash((self._labels, self._slice))

    def __repr__(self) -> str:
        return f"Shape({self._labels!r}, {self._slice!r})"

    def __str__(self) -> str:
        return str(self.extent)

    def __reduce__(self) -> tuple[type[Shape], tuple[tuple[str, ...], Slice]]:
        return Shape, (self._labels, self._slice)


class Region:
    """A view: which base ranks of a root lie under which labels. Immutable, equal by value.

    It is a product of one selection for each dimension. A selection is a stride or an index list, kept as distances
    from the region's first base rank, so that equal views have equal regions however they came about.
    """

    __slots__ = ("_axes", "_extent", "_labels", "_offset")

    def __init__(self, labels: Sequence[str], slice: Slice) -> None:
        axes = tuple(map(_multiples, slice.sizes, slice.strides))
        self._set(Extent(labels, slice.sizes), slice.offset, axes)

    def _set(self, extent: Extent, offset: int, axes: tuple[Axis, ...]) -> None:
        self._extent = extent
        self._labels = extent.labels
        self._offset = offset
        self._axes = axes

    @staticmethod
    def _of(labels: Sequence[str], offset: int, axes: Sequence[Axis]) -> Region:
        region = Region.__new__(Region)
        region._set(Extent(labels, tuple(map(len, axes))), offset, tuple(axes))
        return region

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    @property
    def sizes(self) -> tuple[int, ...]:
        return self._extent.sizes

    @property
    def extent(self) -> Extent:
        return self._extent

    def __len__(self) -> int:
        return self._extent.nelements

    def ranks(self) -> tuple[int, ...]:
        """Base ranks, row-major."""
        return tuple(_enumerate(self._offset, self._axes))

    def base_rank(self, rank: int) -> int:
        """Base rank of a rank of this region; raises `IndexError` when out of range."""
        if not 0 <= rank < len(self):
            raise IndexError(f"rank {rank} is out of range for a mesh of {len(self)} ranks")
        base = self._offset
        for axis in reversed(self._axes):
            rank, index = divmod(rank, len(axis))
            base += axis[index]
        return base

    def contains_base_rank(self, rank: int) -> bool:
        return self._rank_of(rank) is not None

    def point_of_base_rank(self, rank: int) -> Point:
        """Position of a base rank in this region; raises `ValueError` when it is not part of it."""
        position = self._rank_of(rank)
        if position is None:
            raise ValueError(f"base rank {rank} is not part of {self!r}")
        return Point(position, self._extent)

    def _rank_of(self, base: int) -> int | None:
        try:
            return self.ranks().index(base)
        except ValueError:
            return None

    def select(self, label: str, selector: Selector) -> Region:
        """Select in one dimension: an int removes it; a slice or a sequence of distinct indexes keeps it.

        Negative indexes count from the end and slices are clipped, as in lists. Raises `TypeError` for an unknown
        dimension, `IndexError` for an index out of range, `ValueError` for an empty range or a negative step.
        """
        position = self._position(label)
        axis = self._axes[position]
        before, after = self._axes[:position], self._axes[position + 1 :]
        if isinstance(selector, slice):
            kept: Axis = axis[_clip(selector, label, len(axis))]
        elif isinstance(selector, Sequence):
            kept = tuple(axis[i] for i in _distinct(selector, label, len(axis)))
        else:
            labels = self._labels[:position] + self._labels[position + 1 :]
            return Region._of(labels, self._offset + axis[_in_range(selector, label, len(axis))], before + after)
        return Region._of(self._labels, self._offset + kept[0], (*before, _from_zero(kept), *after))

    @staticmethod
    def of_rank(base: int) -> Region:
        """The region without dimensions that shows one base rank."""
        return Region._of((), base, ())

    def at(self, coordinates: Mapping[str, int]) -> int:
        """Base rank at coordinates; raises `KeyError` unless each dimension is named, `IndexError` out of range."""
        extra = [label for label in coordinates if label not in self._labels]
        if extra:
            raise KeyError(f"item has extra dimensions {_quoted(extra)}; known are {_quoted(self._labels)}")
        missing = [label for label in self._labels if label not in coordinates]
        if missing:
            raise KeyError(f"item lacks dimensions {_quoted(missing)} of {self._extent}")
        offset = self._offset
        for label, axis in zip(self._labels, self._axes, strict=True):
            offset += axis[_in_range(coordinates[label], label, len(axis))]
        return offset

    def flatten(self, name: str) -> Region:
        """One dimension `name` over all ranks in their order. Of an irregular view it is an index list."""
        stride = self._dense_stride()
        axis = _from_zero(_enumerate(0, self._axes)) if stride is None else _multiples(len(self), stride)
        return Region._of((name,), self._offset, (axis,))

    def _dense_stride(self) -> int | None:
        """The stride of the flattened view where that is evident without listing its ranks."""
        stride, expected = None, 0
        for axis in reversed(self._axes):
            if len(axis) == 1:
                continue
            if not isinstance(axis, range) or (stride is not None and axis.step != expected):
                return None
            stride = axis.step if stride is None else stride
            expected = axis.step * len(axis)
        return stride or 1

    def rename(self, **names: str) -> Region:
        """The same view with other labels: `rename(old="new")`. Raises `ValueError` for unknown or repeated labels."""
        self._check_known(names)
        return Region._of([names.get(label, label) for label in self._labels], self._offset, self._axes)

    def split(self, **factors: int | Sequence[str]) -> Region:
        """Factor dimensions: `split(gpus=("node", "local"), local=4)`; one size of each group may be left out.

        Raises `ValueError` for an unknown dimension, sizes that do not divide or are not known, a size without its
        dimension, repeated labels, and an index list that is no product of the factors.
        """
        groups, sizes = _split_arguments(factors)
        unused = set(sizes).difference(*groups.values())
        if unused:
            raise ValueError(f"sizes for {_quoted(sorted(unused))}, which the split does not make")
        self._check_known(groups)
        labels: list[str] = []
        axes: list[Axis] = []
        for label, axis in zip(self._labels, self._axes, strict=True):
            names = groups.get(label, (label,))
            factored = _factor(axis, _factor_sizes(label, len(axis), names, sizes)) if label in groups else [axis]
            if factored is None:
                raise ValueError(f"dimension {label!r} is an irregular selection of ranks, not a product of {names}")
            labels += names
            axes += factored
        return Region._of(labels, self._offset, axes)

    def slice(self) -> Slice:
        """The strided form; raises `ValueError` for a view that needs an index list."""
        strides = []
        for label, axis in zip(self._labels, self._axes, strict=True):
            if not isinstance(axis, range):
                raise ValueError(f"dimension {label!r} selects ranks at irregular distances: it has no stride")
            strides.append(axis.step)
        return Slice(offset=self._offset, sizes=self.sizes, strides=strides)

    def as_shape(self) -> Shape:
        """The strided form with labels; raises `ValueError` for a view that needs an index list."""
        return Shape(self._labels, self.slice())

    def _position(self, label: str) -> int:
        try:
            return self._labels.index(label)
        except ValueError:
            raise TypeError(self._unknown(label)) from None

    def _check_known(self, labels: Iterable[str]) -> None:
        for label in labels:
            if label not in self._labels:
                raise ValueError(self._unknown(label))

    def _unknown(self, label: str) -> str:
        return f"no dimension {label!r}: the mesh has {_quoted(self._labels) or 'no dimensions'}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        return self._labels == other._labels and self._offset == other._offset and self._axes == other._axes

    def __hash__(self) -> int:
        return hash((self._labels, self._offset, self._axes))

    def __repr__(self) -> str:
        ranks = self.ranks()
        shown = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
        return f"Region({self._extent}, base ranks [{shown}])"

    def __reduce__(self) -> tuple[object, tuple[tuple[str, ...], int, tuple[object, ...]]]:
        # A range pickles as a global and three ints; (size, step) is a third of that.
        axes = tuple((len(axis), axis.step) if isinstance(axis, range) else list(axis) for axis in self._axes)
        return _region, (self._labels, self._offset, axes)


def _slice(offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Slice:
    return Slice(offset=offset, sizes=sizes, strides=strides)


def _region(labels: tuple[str, ...], offset: int, axes: Iterable[tuple[int, int] | list[int]]) -> Region:
    return Region._of(labels, offset, [tuple(a) if isinstance(a, list) else _multiples(*a) for a in axes])


def _multiples(count: int, stride: int) -> Axis:
    return range(0, count * stride, stride) if stride else (0,) * count


def _enumerate(offset: int, axes: Sequence[Axis]) -> list[int]:
    """The row-major sums of one distance from each axis."""
    ranks = [offset]
    for axis in axes:
        ranks = [rank + distance for rank in ranks for distance in axis]
    return ranks


def _from_zero(values: Sequence[int]) -> Axis:
    """The values as distances from the first one; a range where they are equally spaced."""
    stride = values[1] - values[0] if len(values) > 1 else 1
    if isinstance(values, range) or all(b - a == stride for a, b in pairwise(values)):
        return _multiples(len(values), stride)
    return tuple(value - values[0] for value in values)


def _in_range(index: SupportsIndex, label: str, size: int) -> int:
    try:
        number = to_int(index)
    except TypeError:
        kind = type(index).__name__
        raise TypeError(
            f"dimension {label!r} is selected by an int, a slice or a sequence of ints, not {kind}"
        ) from None
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of range for dimension {label!r} of size {size}")
    return number % size


def _clip(selection: slice, label: str, size: int) -> slice:
    start, stop, step = (
        None if bound is None else to_int(bound) for bound in (selection.start, selection.stop, selection.step)
    )
    if step is not None and step <= 0:
        raise ValueError(f"step {step} for dimension {label!r}: steps are positive")
    if not range(size)[start:stop:step]:
        shown = ":".join("" if bound is None else str(bound) for bound in (start, stop, step or 1))
        raise ValueError(f"empty range {shown} for dimension {label!r} of size {size}")
    return slice(start, stop, step)


def _distinct(selection: Sequence[int], label: str, size: int) -> list[int]:
    if any(isinstance(index, bool) for index in selection):
        raise TypeError(f"dimension {label!r} is selected by indexes, not by a mask of booleans")
    indexes = [_in_range(index, label, size) for index in selection]
    if not indexes:
        raise ValueError(f"empty list of indexes for dimension {label!r} of size {size}")
    if len(set(indexes)) < len(indexes):
        raise ValueError(f"repeated index in {list(selection)} for dimension {label!r} of size {size}")
    return indexes


def _split_arguments(factors: Mapping[str, int | Sequence[str]]) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
    groups: dict[str, tuple[str, ...]] = {}
    sizes: dict[str, int] = {}
    for label, value in factors.items():
        if isinstance(value, str):
            raise ValueError(f"dimension {label!r} is split into a tuple of labels, such as ({value!r},)")
        if isinstance(value, Sequence):
            groups[label] = tuple(value)
        else:
            sizes[label] = to_int(value)
    return groups, sizes


def _factor_sizes(label: str, size: int, names: tuple[str, ...], known: Mapping[str, int]) -> list[int]:
    """Sizes of the factors of a dimension, of which one may be unknown."""
    unknown = [name for name in names if name not in known]
    if len(unknown) > 1:
        raise ValueError(f"the sizes of {_quoted(unknown)} are not given: only one may be left out")
    product = prod(known[name] for name in names if name in known)
    if product < 1 or size % product or (not unknown and size != product):
        given = ", ".join(f"{name}={known[name]}" for name in names if name in known)
        raise ValueError(f"dimension {label!r} of size {size} can not be split into {names} with {given or 'no sizes'}")
    return [known.get(name, size // product) for name in names]


def _factor(axis: Axis, sizes: Sequence[int]) -> list[Axis] | None:
    """The axes whose product is `axis`; None where there are none."""
    if len(sizes) == 1:
        return [axis]
    inner = prod(sizes[1:])
    outer, rest = axis[::inner], axis[:inner]
    if not isinstance(axis, range) and _enumerate(0, [outer, rest]) != list(axis):
        return None
    factored = _factor(_from_zero(rest), sizes[1:])
    return None if factored is None else [_from_zero(outer), *factored]


def _refuse_repeated(labels: Sequence[str]) -> None:
    repeated = [label for label in labels if labels.count(label) > 1]
    if repeated:
        raise ValueError(f"repeated label {repeated[0]!r} in {tuple(labels)}")


def _quoted(labels: Iterable[str]) -> str:
    return ", ".join(map(repr, labels))
