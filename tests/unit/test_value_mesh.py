"""Results by rank."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from monarch._actor.shape import Extent, Point, Shape, Slice
from monarch._actor.value_mesh import ValueMesh

EXTENT = Extent(("a", "b"), (2, 3))


@pytest.fixture
def mesh() -> ValueMesh[str]:
    return ValueMesh(EXTENT, "uvwxyz")


def test_values_are_found_by_rank_and_by_coordinates(mesh: ValueMesh[str]) -> None:
    assert mesh.get(4) == mesh.item(a=1, b=1) == mesh[4] == mesh[-2] == mesh[{"a": 1, "b": 1}] == "y"
    assert mesh[Point(4, EXTENT)] == "y"
    assert mesh.slice(a=1, b=1).item() == "y"


def test_iteration_yields_pairs_in_rank_order(mesh: ValueMesh[str]) -> None:
    assert list(mesh) == list(mesh.items()) == [(Point(rank, EXTENT), value) for rank, value in enumerate("uvwxyz")]
    assert list(mesh.values()) == list("uvwxyz")
    assert len(mesh) == 6


def test_what_is_not_there_is_named(mesh: ValueMesh[str]) -> None:
    with pytest.raises(ValueError, match="rank 6 is out of range"):
        mesh.get(6)
    with pytest.raises(ValueError, match="rank -1 is out of range"):
        mesh.get(-1)
    with pytest.raises(IndexError, match="rank 6 is out of range"):
        mesh[6]
    with pytest.raises(IndexError, match="index 2 is out of range for dimension 'a' of size 2"):
        mesh.item(a=2, b=0)
    with pytest.raises(KeyError, match="item lacks dimensions 'b'"):
        mesh.item(a=0)
    with pytest.raises(KeyError, match="item has extra dimensions 'c'"):
        mesh.item(a=0, b=0, c=0)


def test_the_number_of_values_must_fit() -> None:
    with pytest.raises(ValueError, match="expected 6 ranks, but contains 1 ranks"):
        ValueMesh(EXTENT, [0])


def test_it_can_be_made_of_a_shape() -> None:
    shape = Shape(["n"], Slice(offset=4, sizes=[2], strides=[3]))
    assert dict(ValueMesh(shape, "pq").items()) == {Point(0, shape.extent): "p", Point(1, shape.extent): "q"}


def test_it_can_be_made_of_pairs_in_any_order() -> None:
    pairs = [(2, "w"), (0, "u"), (1, "v")]
    assert list(ValueMesh.from_indexed(Extent(("n",), (3,)), pairs).values()) == ["u", "v", "w"]


@pytest.mark.parametrize("ranks", [[0], [0, 0], [0, 1, 2], [1, 2]])
def test_each_rank_must_come_exactly_once(ranks: list[int]) -> None:
    with pytest.raises(ValueError, match="expected the ranks 0 to 1, each once, but got"):
        ValueMesh.from_indexed(Extent(("n",), (2,)), [(rank, None) for rank in ranks])


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_views_are_numbered_from_zero_and_share_values(rows: int, columns: int, data: st.DataObject) -> None:
    array = np.arange(rows * columns).reshape(rows, columns)
    mesh = ValueMesh(Extent(("a", "b"), (rows, columns)), array.ravel().tolist())
    step = data.draw(st.integers(1, columns))
    picked = data.draw(st.lists(st.integers(0, rows - 1), min_size=1, unique=True))
    view = mesh.slice(a=picked, b=slice(None, None, step))
    assert list(view.values()) == array[picked, ::step].ravel().tolist()
    assert [point.rank for point, _ in view] == list(range(len(view)))
    assert list(view.flatten("n").slice(n=0).values()) == [array[picked[0], 0]]


def test_lazy_values_are_computed_once_at_the_first_access() -> None:
    computed: list[int] = []

    def thunk(rank: int) -> int:
        computed.append(rank)
        return rank * 10

    mesh = ValueMesh._lazy(Extent(("n",), (3,)), [lambda rank=rank: thunk(rank) for rank in range(3)])
    assert computed == []
    assert (mesh[1], mesh.slice(n=1).item(), mesh.get(1)) == (10, 10, 10)
    assert computed == [1]
    assert list(mesh.values()) == [0, 10, 20]
    assert computed == [1, 0, 2]


def test_a_lazy_value_that_fails_leaves_the_others_alone() -> None:
    mesh = ValueMesh._lazy(Extent(("n",), (2,)), [lambda: 1 // 0, lambda: 7])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            mesh[0]
    assert mesh[1] == 7


def test_a_view_pickles_with_its_own_values_only() -> None:
    view = ValueMesh(Extent(("n",), (3,)), ["first", "second", "third"]).slice(n=slice(0, 3, 2))
    pickled = pickle.dumps(view)
    assert list(pickle.loads(pickled).items()) == list(view.items())
    assert b"second" not in pickled


def test_it_shows_positions_and_values() -> None:
    assert repr(ValueMesh(Extent(("n",), (2,)), ["p", 1])) == "ValueMesh({n: 2}, [({'n': 0/2}, 'p'), ({'n': 1/2}, 1)])"


def test_equality_is_identity(mesh: ValueMesh[str]) -> None:
    assert mesh == mesh
    assert mesh != ValueMesh(EXTENT, "uvwxyz")
    assert len({mesh, mesh}) == 1


def test_the_class_can_be_subscripted() -> None:
    assert ValueMesh[int].__origin__ is ValueMesh  # type: ignore[attr-defined]
