"""What travels in messages arrives as what it was; what cannot travel says so."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import pytest
from conftest import eventually
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monarch.actor import (
    Channel,
    Extent,
    MeshFailure,
    Point,
    ProcMesh,
    Shape,
    Slice,
    ValueMesh,
    context,
    this_host,
    this_proc,
)
from property_actors import VIEWS, Log, Mirror

shared = settings(
    deadline=None, suppress_health_check=list(HealthCheck), database=None, max_examples=25, derandomize=True
)
WAYS = ["pickle", "cloudpickle", "a worker"]


@pytest.fixture(scope="module")
def mirror(grid: ProcMesh) -> Any:
    return grid.slice(row=1, col=0).spawn("mirror", Mirror)


@pytest.fixture(scope="module")
def log(grid: ProcMesh) -> Any:
    return grid.spawn("log", Log)


def travelled(way: str, value: Any, mirror: Any) -> Any:
    if way == "a worker":
        return mirror.reflect.call_one(value).get(timeout=30)
    return pickle.loads((pickle if way == "pickle" else cloudpickle).dumps(value))


def handles(grid: ProcMesh, log: Any) -> dict[str, Any]:
    instance = context().actor_instance
    extent = Extent(["a", "b"], [2, 3])
    return {
        "actor mesh": log,
        "process mesh": grid,
        "this process": this_proc(),
        "host mesh": this_host(),
        "extent": extent,
        "point": Point(4, extent),
        "region": extent.region.select("b", [0, 2]),
        "shape": Shape(["a", "b"], Slice.new_row_major([2, 3])),
        "slice": Slice(offset=1, sizes=[2], strides=[3]),
        "actor id": instance.actor_id,
        "creator": instance.as_creator(),
    }


KINDS = [
    "actor mesh",
    "process mesh",
    "this process",
    "host mesh",
    "extent",
    "point",
    "region",
    "shape",
    "slice",
    "actor id",
    "creator",
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_handle_arrives_equal_and_with_the_same_hash(
    grid: ProcMesh, log: Any, mirror: Any, kind: str, way: str
) -> None:
    value = handles(grid, log)[kind]
    copy = travelled(way, value, mirror)
    assert copy == value
    assert hash(copy) == hash(value)
    assert type(copy) is type(value)


@shared
@given(st.sampled_from(list(VIEWS)), st.sampled_from(WAYS), st.integers())
def test_a_view_of_actors_reaches_the_same_ones_wherever_it_has_been(
    log: Any, mirror: Any, view: str, way: str, number: int
) -> None:
    select, ranks = VIEWS[view]
    copy = travelled(way, select(log), mirror)
    assert copy == select(log)
    copy.note.call("me", number).get(timeout=30)
    seen = log.take.call().get(timeout=30)
    assert [rank for rank, notes in enumerate(seen.values()) if notes] == ranks


@shared
@given(st.sampled_from(list(VIEWS)), st.sampled_from(WAYS))
def test_a_view_of_processes_is_the_same_one_wherever_it_has_been(
    grid: ProcMesh, mirror: Any, view: str, way: str
) -> None:
    part = VIEWS[view][0](grid)
    copy = travelled(way, part, mirror)
    assert (copy, hash(copy), copy.extent) == (part, hash(part), part.extent)


@pytest.mark.parametrize("way", WAYS)
def test_a_port_sends_to_the_same_receiver_wherever_it_has_been(mirror: Any, way: str) -> None:
    port, receiver = Channel[int].open()
    travelled(way, travelled(way, port, mirror), mirror).send(7)
    assert receiver.recv().get(timeout=30) == 7


@pytest.mark.parametrize("way", WAYS)
def test_values_of_a_mesh_arrive_equal(log: Any, mirror: Any, way: str) -> None:
    values: ValueMesh[Any] = mirror.reflect.call({"a": 1}).get(timeout=30)
    copy = travelled(way, values, mirror)
    assert (copy.extent, list(copy.values())) == (values.extent, list(values.values()))


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_arrives_with_all_it_says(grid: ProcMesh, mirror: Any, faults: list[MeshFailure], way: str) -> None:
    grid.slice(row=0, col=1).spawn("short_lived", Mirror).reflect_later.broadcast(0, KeyError("who"))
    eventually(lambda: faults, "the failure is told")
    (failure,) = faults
    copy = travelled(way, failure, mirror)
    for member in ("mesh", "name", "mesh_name", "ranks", "kind", "exit_code", "signal"):
        assert getattr(copy, member) == getattr(failure, member), member
    assert repr(copy.exception) == repr(failure.exception)
    assert copy.report() == failure.report()


@pytest.mark.parametrize("kind", ["endpoint", "future", "context", "instance", "receiver", "stream"])
@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_what_belongs_to_one_place_says_that_it_cannot_travel(mirror: Any, kind: str, dumps: Any) -> None:
    stays: dict[str, Any] = {
        "endpoint": mirror.reflect,
        "future": mirror.reflect.call_one(1),
        "context": context(),
        "instance": context().actor_instance,
        "receiver": Channel[int].open()[1],
        "stream": mirror.reflect.stream(1),
    }
    with pytest.raises(TypeError, match="cannot be pickled"):
        dumps(stays[kind])
    with pytest.raises(TypeError, match="cannot be pickled"):
        mirror.reflect.call_one(stays[kind])
