"""Generator endpoints: their values come as they are yielded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from monarch.actor import ActorError, ProcMesh
from port_actors import AsyncCounter, Counter, Server

WITHIN_S = 20


@pytest.fixture(scope="module")
def counters(grid: ProcMesh) -> Any:
    return grid.flatten("rank").spawn("counters", Counter)


def test_the_values_of_all_ranks_come_and_each_ranks_in_order(counters: Any) -> None:
    found = list(counters.count.stream(50))
    for rank in range(4):
        assert [i for at, i in found if at == rank] == list(range(50))
    assert len(found) == 200


def test_a_value_comes_before_the_generator_has_ended(one: ProcMesh) -> None:
    server = one.spawn("gate", Server)
    stream = iter(one.spawn("counter", Counter).wait_between.stream(server))
    assert next(stream) == 1
    assert list(stream) == [2]


def test_a_generator_that_yields_nothing_ends_its_stream(counters: Any) -> None:
    assert list(counters.count.stream(0)) == []


def test_an_event_loop_iterates(one: ProcMesh) -> None:
    async def collect(counter: Any) -> list[int]:
        return [value async for value in counter.count.stream(20)]

    assert asyncio.run(collect(one.spawn("async_counter", AsyncCounter))) == list(range(20))


def test_what_a_generator_raises_comes_in_its_place_and_the_others_go_on(counters: Any) -> None:
    stream = iter(counters.fail_after.stream(3, 2))
    found: list[int] = []
    errors: list[Exception] = []
    ended = False
    while not ended:
        try:
            found.append(next(stream))
        except StopIteration:
            ended = True
        except ActorError as error:
            errors.append(error)
    assert sorted(found) == sorted([0, 1, 2] * 4)
    assert [isinstance(error, KeyError) for error in errors] == [True]
    assert len(list(counters.count.stream(1))) == 4


def test_a_call_of_a_generator_says_to_stream(counters: Any) -> None:
    with pytest.raises(TypeError, match="stream"):
        counters.count.choose(1).get(timeout=WITHIN_S)


def test_the_arguments_of_a_generator_are_checked_at_the_call(counters: Any) -> None:
    with pytest.raises(TypeError):
        counters.count.stream()
