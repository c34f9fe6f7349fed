"""Actors that wait for room at each other get more of it; where even that is not enough they are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from flowing_actors import AT_MOST, HARD_LIMIT, SIZE, AsyncTaker, Taker
from monarch.actor import ActorError, BackPressureError, Channel, ProcMesh

COUNT = 8 * AT_MOST


def gets_everything_in_order(taker: Any, name: str) -> bool:
    """Asked again until as much has arrived: what comes from here is not after what others sent."""
    deadline = time.monotonic() + 30
    seen: list[tuple[str, int]] = []
    while len(seen) < COUNT and time.monotonic() < deadline:
        seen = taker.taken.call_one().get(timeout=30)
    return seen == [(name, number) for number in range(COUNT)]


@pytest.mark.parametrize("kind", [Taker, AsyncTaker])
@pytest.mark.parametrize("count", [2, 3])
def test_actors_that_flood_each_other_get_everything_in_order(
    spawn_procs: Callable[..., ProcMesh], kind: type[Any], count: int
) -> None:
    takers: Any = spawn_procs(per_host={"gpus": count}).spawn("takers", kind)
    ring = [takers.slice(gpus=index) for index in range(count)]
    floods = [ring[index].flood.call_one(ring[(index + 1) % count], str(index), COUNT, SIZE) for index in range(count)]
    for flood in floods:
        flood.get(timeout=60)
    for index in range(count):
        assert gets_everything_in_order(ring[(index + 1) % count], str(index))


def test_who_awaits_an_actor_that_floods_it_meanwhile_gets_everything(spawn_procs: Callable[..., ProcMesh]) -> None:
    takers: Any = spawn_procs(per_host={"gpus": 2}).spawn("takers", AsyncTaker)
    asking, flooding = takers.slice(gpus=0), takers.slice(gpus=1)
    asking.ask_for_flood.call_one(flooding, asking, COUNT, SIZE).get(timeout=60)
    assert gets_everything_in_order(asking, "asked")


def test_a_program_that_waits_for_an_actor_before_it_reads_its_port_gets_everything(
    spawn_procs: Callable[..., ProcMesh],
) -> None:
    taker = spawn_procs().spawn("taker", Taker)
    port, receiver = Channel[bytes].open()
    taker.flood_port.call_one(port, COUNT, SIZE).get(timeout=60)
    for number in range(COUNT):
        assert int.from_bytes(receiver.recv().get(timeout=30)[:4], "big") == number


def test_beyond_the_hard_limit_a_cycle_is_an_error(spawn_procs: Callable[..., ProcMesh]) -> None:
    takers = spawn_procs(per_host={"gpus": 2}).spawn("takers", Taker)
    first, second = takers.slice(gpus=0), takers.slice(gpus=1)
    count = 2 * HARD_LIMIT // (8 * SIZE)
    floods = [first.flood.call_one(second, "0", count, 8 * SIZE), second.flood.call_one(first, "1", count, 8 * SIZE)]
    errors = [error for flood in floods if (error := flood.exception(timeout=60)) is not None]
    # With the error of one the other has room again.
    assert errors
    for error in errors:
        assert isinstance(error, ActorError) and isinstance(error, BackPressureError)
        assert "send_hard_limit_bytes" in str(error)
    assert takers.pid.call().get(timeout=30), "they serve on"
