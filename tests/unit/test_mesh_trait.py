"""What every mesh can do, shown on a mesh that only knows which ranks it shows."""

from __future__ import annotations

import pytest
from monarch._actor.mesh_trait import MeshTrait
from monarch._actor.shape import Extent, Point, Region, Slice


class Ranks(MeshTrait):
    def __init__(self, region: Region) -> None:
        self._shown = region

    @property
    def _region(self) -> Region:
        return self._shown

    def _with_region(self, region: Region) -> Ranks:
        return Ranks(region)

    @property
    def ranks(self) -> tuple[int, ...]:
        return self._shown.ranks()


@pytest.fixture
def mesh() -> Ranks:
    return Ranks(Extent(("a", "b"), (2, 3)).region)


def test_it_tells_its_sizes(mesh: Ranks) -> None:
    assert (mesh.size(), mesh.size("b"), mesh.size(("a", "b")), len(mesh)) == (6, 3, 6, 6)
    assert mesh.sizes == {"a": 2, "b": 3}
    assert mesh.extent == Extent(("a", "b"), (2, 3))
    assert mesh._labels == ("a", "b")
    assert mesh._ndslice == Slice(offset=0, sizes=(2, 3), strides=(3, 1))


def test_the_size_of_an_unknown_dimension_is_a_key_error(mesh: Ranks) -> None:
    with pytest.raises(KeyError, match="q"):
        mesh.size("q")


def test_slicing_selects_in_several_dimensions_at_once(mesh: Ranks) -> None:
    assert mesh.slice().ranks == mesh.ranks
    assert mesh.slice(a=1, b=slice(1, None)).ranks == (4, 5)
    assert mesh.slice(a=-1, b=[2, 0]).ranks == (5, 3)
    assert mesh.slice(b=slice(0, 3, 2)).ranks == (0, 2, 3, 5)
    assert mesh.slice(b=slice(0, 99)).ranks == mesh.ranks


def test_slicing_with_a_point_gives_its_member(mesh: Ranks) -> None:
    assert mesh.slice(**Point(4, mesh.extent)).ranks == (4,)


def test_views_can_be_reshaped(mesh: Ranks) -> None:
    assert mesh.flatten("n").slice(n=slice(1, 3)).ranks == (1, 2)
    assert mesh.slice(b=[0, 2]).flatten("n").slice(n=2).ranks == (3,)
    assert mesh.split(b=("x", "y"), x=3).sizes == {"a": 2, "x": 3, "y": 1}
    assert mesh.rename(a="host").sizes == {"host": 2, "b": 3}


def test_iteration_yields_members_without_dimensions(mesh: Ranks) -> None:
    members = list(mesh.slice(a=1))
    assert [member.ranks for member in members] == [(3,), (4,), (5,)]
    assert all(member.sizes == {} for member in members)


def test_items_pair_members_with_positions(mesh: Ranks) -> None:
    view = mesh.slice(b=slice(1, 3))
    assert [(point, member.ranks) for point, member in view.items()] == [
        (Point(0, view.extent), (1,)),
        (Point(1, view.extent), (2,)),
        (Point(2, view.extent), (4,)),
        (Point(3, view.extent), (5,)),
    ]


def test_members_are_found_by_rank_and_by_coordinates(mesh: Ranks) -> None:
    view = mesh.slice(b=[2, 0])
    assert view[1].ranks == view[{"a": 0, "b": 1}].ranks == view.item(a=0, b=-1).ranks == (0,)
    assert view[-1].ranks == (3,)
    assert view[Point(2, view.extent)].ranks == (5,)


def test_a_member_that_is_not_there_is_named(mesh: Ranks) -> None:
    with pytest.raises(IndexError, match="rank 6 is out of range for a mesh of 6 ranks"):
        mesh[6]
    with pytest.raises(IndexError, match="rank -7 is out of range"):
        mesh[-7]
    with pytest.raises(IndexError, match="index 3 is out of range for dimension 'b' of size 3"):
        mesh.item(a=0, b=3)
    with pytest.raises(KeyError, match="item lacks dimensions 'b'"):
        mesh.item(a=0)
