"""The algebra of extents, points and regions, against NumPy arrays of ranks."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from monarch._actor.shape import Extent, Point, Region, Shape, Slice

LABELS = ("a", "b", "c", "d")
sizes = st.lists(st.integers(1, 5), max_size=4)


def root(shape: list[int]) -> tuple[Region, np.ndarray]:
    return Extent(LABELS[: len(shape)], shape).region, np.arange(int(np.prod(shape))).reshape(shape)


@st.composite
def views(draw: st.DrawFn) -> tuple[Region, np.ndarray]:
    """A region and the array of its base ranks, after a few random selections."""
    region, array = root(draw(sizes))
    for _ in range(draw(st.integers(0, 4))):
        if not region.labels:
            break
        axis = draw(st.integers(0, len(region.labels) - 1))
        size, label = region.sizes[axis], region.labels[axis]
        selector = draw(selectors(size))
        region = region.select(label, selector)
        array = array[(slice(None),) * axis + (selector,)]
    return region, array


@st.composite
def selectors(draw: st.DrawFn, size: int) -> int | slice | list[int]:
    kind = draw(st.sampled_from(["int", "slice", "list"]))
    if kind == "int":
        return draw(st.integers(-size, size - 1))
    if kind == "slice":
        bounds = st.none() | st.integers(-2 * size, 2 * size)
        steps = st.none() | st.integers(1, size)
        selected = st.builds(slice, bounds, bounds, steps).filter(lambda s: len(range(size)[s]) > 0)
        return draw(selected)
    return draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=size, unique=True))


def assert_shows(region: Region, array: np.ndarray) -> None:
    assert region.sizes == array.shape
    assert region.ranks() == tuple(array.ravel().tolist())


@given(views())
def test_selecting_is_indexing_an_array(view: tuple[Region, np.ndarray]) -> None:
    assert_shows(*view)


@given(views())
def test_a_region_pickles_to_an_equal_one_with_the_same_hash(view: tuple[Region, np.ndarray]) -> None:
    region, array = view
    copy = pickle.loads(pickle.dumps(region))
    assert copy == region
    assert hash(copy) == hash(region)
    assert_shows(copy, array)


@given(views())
def test_flattening_keeps_the_ranks_in_their_order(view: tuple[Region, np.ndarray]) -> None:
    region, array = view
    flat = region.flatten("rank")
    assert flat.labels == ("rank",)
    assert_shows(flat, array.ravel())


@given(views())
def test_flattening_twice_is_flattening_once(view: tuple[Region, np.ndarray]) -> None:
    flat = view[0].flatten("rank")
    assert flat.flatten("rank") == flat


@given(views().filter(lambda view: bool(view[0].labels)))
def test_splitting_a_flattened_view_gives_it_back(view: tuple[Region, np.ndarray]) -> None:
    region, _ = view
    split = region.flatten("all").split(all=region.labels, **dict(region.extent))
    assert split == region


@given(views())
def test_ranks_and_points_lead_to_base_ranks_and_back(view: tuple[Region, np.ndarray]) -> None:
    region, array = view
    for rank, (coordinates, base) in enumerate(np.ndenumerate(array)):
        point = region.point_of_base_rank(int(base))
        assert point.rank == rank
        assert tuple(point.values()) == coordinates
        assert region.at(point) == base
        assert region.base_rank(rank) == base
        assert region.contains_base_rank(int(base))


@given(views())
def test_a_base_rank_outside_the_view_has_no_point(view: tuple[Region, np.ndarray]) -> None:
    region, array = view
    outside = int(array.max()) + 1
    assert not region.contains_base_rank(outside)
    with pytest.raises(ValueError, match=f"base rank {outside} is not part of"):
        region.point_of_base_rank(outside)


@given(views())
def test_equal_ranks_under_equal_labels_are_equal_regions(view: tuple[Region, np.ndarray]) -> None:
    region, _ = view
    listed = region
    for label, size in region.extent.items():
        listed = listed.select(label, list(range(size)))
    assert listed == region
    assert hash(listed) == hash(region)


@given(views())
def test_the_strided_form_shows_the_same_ranks_or_is_refused(view: tuple[Region, np.ndarray]) -> None:
    region, array = view
    try:
        shape = region.as_shape()
    except ValueError as error:
        assert "irregular distances" in str(error)
        return
    assert shape.ranks() == array.ravel().tolist()
    assert shape.region == region


@given(sizes)
def test_a_whole_mesh_pickles_small_whatever_its_size(shape: list[int]) -> None:
    region = Extent(LABELS[: len(shape)], [1000 * size for size in shape]).region
    assert len(pickle.dumps(region, 5)) < 70 + 16 * len(shape)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_splitting_is_reshaping(first: int, second: int, other: int) -> None:
    region, array = root([first * second, other])
    split = region.split(a=("x", "y"), y=second)
    assert split.labels == ("x", "y", "b")
    assert_shows(split, array.reshape(first, second, other))


def test_renaming_changes_labels_only() -> None:
    region, array = root([2, 3])
    renamed = region.rename(a="host")
    assert renamed.labels == ("host", "b")
    assert_shows(renamed, array)


def test_labels_may_be_exchanged() -> None:
    assert root([2, 3])[0].rename(a="b", b="a").extent == Extent(("b", "a"), (2, 3))


@pytest.mark.parametrize(
    ("selection", "error", "text"),
    [
        ({"b": 5}, IndexError, "index 5 is out of range for dimension 'b' of size 3"),
        ({"b": -4}, IndexError, "index -4 is out of range for dimension 'b' of size 3"),
        ({"b": [0, 3]}, IndexError, "index 3 is out of range for dimension 'b' of size 3"),
        ({"b": slice(2, 2)}, ValueError, "empty range 2:2:1 for dimension 'b' of size 3"),
        ({"b": slice(7, None)}, ValueError, "empty range 7::1 for dimension 'b' of size 3"),
        ({"b": slice(None, None, -1)}, ValueError, "step -1 for dimension 'b': steps are positive"),
        ({"b": slice(None, None, 0)}, ValueError, "step 0 for dimension 'b': steps are positive"),
        ({"b": []}, ValueError, "empty list of indexes for dimension 'b' of size 3"),
        ({"b": [1, -2]}, ValueError, "repeated index in [1, -2] for dimension 'b' of size 3"),
        ({"b": [True, False, True]}, TypeError, "not by a mask of booleans"),
        ({"b": 1.0}, TypeError, "dimension 'b' is selected by an int, a slice or a sequence of ints, not float"),
        ({"b": "x"}, TypeError, "dimension 'b' is selected by an int, a slice or a sequence of ints, not str"),
        ({"zz": 0}, TypeError, "no dimension 'zz': the mesh has 'a', 'b'"),
    ],
)
def test_a_bad_selection_is_named(selection: dict[str, object], error: type[Exception], text: str) -> None:
    region = Extent(("a", "b"), (2, 3)).region
    ((label, selector),) = selection.items()
    with pytest.raises(error) as caught:
        region.select(label, selector)  # type: ignore[arg-type]
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("factors", "text"),
    [
        ({"a": ("x", "y")}, "only one may be left out"),
        ({"a": ("x", "y"), "x": 4}, "dimension 'a' of size 6 can not be split into ('x', 'y') with x=4"),
        ({"a": ("x", "y"), "x": 0}, "can not be split"),
        ({"a": ("x", "y"), "x": 2, "y": 2}, "can not be split"),
        ({"a": ("b", "y"), "y": 2}, "repeated label 'b'"),
        ({"a": ("x", "y"), "x": 2, "z": 3}, "sizes for 'z', which the split does not make"),
        ({"q": ("x", "y"), "x": 2}, "no dimension 'q'"),
        ({"a": "xy", "x": 2}, "split into a tuple of labels"),
    ],
)
def test_a_bad_split_is_named(factors: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        Extent(("a", "b"), (6, 2)).region.split(**factors)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_an_irregular_list_can_not_be_split() -> None:
    with pytest.raises(ValueError, match="irregular selection"):
        Extent(("a",), (9,)).region.select("a", [0, 1, 3, 8]).split(a=("x", "y"), x=2)


def test_renaming_an_unknown_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="no dimension 'q': the mesh has 'a'"):
        Extent(("a",), (2,)).region.rename(q="r")


@pytest.mark.parametrize(
    ("coordinates", "text"),
    [
        ({"a": 0}, "item lacks dimensions 'b'"),
        ({"a": 0, "b": 0, "c": 0}, "item has extra dimensions 'c'"),
    ],
)
def test_an_item_needs_each_dimension_and_no_other(coordinates: dict[str, int], text: str) -> None:
    with pytest.raises(KeyError, match=text):
        Extent(("a", "b"), (2, 3)).region.at(coordinates)


class TestExtent:
    def test_is_a_mapping_from_label_to_size(self) -> None:
        extent = Extent(["a", "b"], [2, 3])
        assert dict(extent) == {"a": 2, "b": 3}
        assert (extent.labels, extent.sizes, extent.nelements) == (("a", "b"), (2, 3), 6)
        assert str(extent) == "{a: 2, b: 3}"
        with pytest.raises(KeyError, match="q"):
            extent["q"]

    def test_without_dimensions_has_one_rank(self) -> None:
        assert Extent((), ()).nelements == 1
        assert Extent((), ()).region.ranks() == (0,)

    def test_is_equal_by_value_and_order(self) -> None:
        assert Extent(("a",), (2,)) == Extent(["a"], [2])
        assert hash(Extent(("a",), (2,))) == hash(Extent(["a"], [2]))
        assert Extent(("a", "b"), (2, 2)) != Extent(("b", "a"), (2, 2))

    def test_pickles(self) -> None:
        extent = Extent(("a", "b"), (2, 3))
        assert pickle.loads(pickle.dumps(extent)) == extent

    @pytest.mark.parametrize(
        ("labels", "sizes", "text"),
        [
            (("a", "a"), (2, 3), "repeated label 'a'"),
            (("a",), (2, 3), "1 labels"),
            (("a",), (0,), "dimension 'a' has size 0: sizes are at least 1"),
            (("a",), (-1,), "dimension 'a' has size -1"),
        ],
    )
    def test_refuses_what_makes_no_sense(self, labels: tuple[str, ...], sizes: tuple[int, ...], text: str) -> None:
        with pytest.raises(ValueError, match=text):
            Extent(labels, sizes)


class TestPoint:
    extent = Extent(("host", "gpu"), (2, 8))

    @given(st.integers(0, 15))
    def test_is_a_mapping_from_label_to_coordinate(self, rank: int) -> None:
        point = Point(rank, self.extent)
        assert dict(point) == dict(zip(("host", "gpu"), divmod(rank, 8), strict=True))
        assert (point.rank, point.extent, point.size("gpu"), len(point)) == (rank, self.extent, 8, 2)

    def test_shows_coordinate_and_size(self) -> None:
        assert str(Point(8, self.extent)) == "{'host': 1/2, 'gpu': 0/8}"

    def test_an_unknown_label_is_a_key_error(self) -> None:
        point = Point(0, self.extent)
        with pytest.raises(KeyError, match="q"):
            point["q"]
        with pytest.raises(KeyError, match="q"):
            point.size("q")
        assert point.get("q") is None

    def test_is_equal_to_equal_points_only(self) -> None:
        assert len({Point(3, self.extent), Point(3, Extent(("host", "gpu"), (2, 8)))}) == 1
        assert Point(3, self.extent) != Point(4, self.extent)
        assert Point(3, self.extent) != {"host": 0, "gpu": 3}

    @pytest.mark.parametrize("rank", [-1, 16])
    def test_a_rank_outside_its_extent_is_refused(self, rank: int) -> None:
        with pytest.raises(ValueError, match=f"rank {rank} is out of range"):
            Point(rank, self.extent)

    def test_pickles(self) -> None:
        assert pickle.loads(pickle.dumps(Point(9, self.extent))) == Point(9, self.extent)


class TestSlice:
    @given(st.lists(st.integers(0, 50), max_size=12))
    def test_a_list_decomposes_into_slices_that_yield_it(self, values: list[int]) -> None:
        assert [value for part in Slice.from_list(values) for value in part] == values

    def test_a_regular_list_is_one_slice(self) -> None:
        assert Slice.from_list([3, 5, 7]) == [Slice(offset=3, sizes=[3], strides=[2])]

    @given(sizes)
    def test_row_major_enumerates_an_array(self, shape: list[int]) -> None:
        whole = Slice.new_row_major(shape)
        assert list(whole) == list(range(int(np.prod(shape))))
        for value in whole:
            assert whole.nditem(whole.coordinates(value)) == whole[value] == whole.get(value) == value

    def test_indexes_like_a_sequence(self) -> None:
        part = Slice(offset=1, sizes=[2, 2], strides=[10, 1])
        assert (part[-1], part[1:3], part.index(11), len(part), part.ndim) == (12, (2, 11), 2, 4, 2)
        with pytest.raises(IndexError):
            part[4]
        with pytest.raises(ValueError):
            part.index(3)

    def test_coordinates_of_a_foreign_value_are_refused(self) -> None:
        with pytest.raises(ValueError, match="3 is not contained in Slice"):
            Slice(offset=0, sizes=[2], strides=[2]).coordinates(3)

    def test_is_a_value(self) -> None:
        part = Slice(offset=1, sizes=[2, 2], strides=[10, 1])
        assert pickle.loads(pickle.dumps(part)) == part
        assert hash(pickle.loads(pickle.dumps(part))) == hash(part)


class TestShape:
    shape = Shape(["a", "b"], Slice(offset=0, sizes=[2, 3], strides=[3, 1]))

    def test_maps_coordinates_to_base_ranks_and_back(self) -> None:
        part = self.shape.select("b", slice(1, 3))
        assert part.ranks() == [1, 2, 4, 5]
        assert part.index(a=1, b=0) == 4
        assert part.coordinates(4) == {"a": 1, "b": 0}
        assert part.at("a", 1).ranks() == [4, 5]
        assert len(part) == 4
        assert part.extent == Extent(("a", "b"), (2, 2))

    def test_the_unity_is_rank_zero_without_dimensions(self) -> None:
        assert Shape.unity().ranks() == [0]
        assert Shape.unity().labels == ()

    def test_is_a_value(self) -> None:
        copy = pickle.loads(pickle.dumps(self.shape))
        assert copy == self.shape
        assert hash(copy) == hash(self.shape)

    def test_refuses_unknown_labels_and_indexes_with_value_error(self) -> None:
        for refused in (
            lambda: self.shape.at("q", 0),
            lambda: self.shape.at("a", 2),
            lambda: self.shape.select("q", slice(None)),
            lambda: self.shape.index(a=0),
            lambda: self.shape.index(a=0, b=3),
            lambda: self.shape.coordinates(6),
            lambda: Shape(["a"], self.shape.ndslice),
            lambda: Shape(["a", "a"], self.shape.ndslice),
        ):
            with pytest.raises(ValueError):
                refused()
