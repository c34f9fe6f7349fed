"""Concurrent endpoints with a limit."""

from __future__ import annotations

import asyncio

import pytest
from conftest import eventually
from monarch.actor import Actor, ProcMesh, concurrent_endpoint, endpoint

WITHIN_S = 20.0


class Turnstile(Actor):
    """Lets calls end one by one; knows which ones run."""

    def __init__(self) -> None:
        self.running: dict[int, asyncio.Event] = {}
        self.begun: list[int] = []

    @concurrent_endpoint(limit=2)
    async def enter(self, number: int) -> int:
        self.begun.append(number)
        self.running[number] = asyncio.Event()
        try:
            await self.running[number].wait()
        finally:
            del self.running[number]
        return number

    @concurrent_endpoint
    async def beside(self) -> str:
        return "beside"

    @endpoint
    async def let_go(self, number: int) -> None:
        self.running[number].set()

    @endpoint
    async def fail(self, number: int) -> None:
        raise ValueError(number)

    @endpoint
    async def state(self) -> tuple[list[int], list[int]]:
        return sorted(self.running), self.begun


@pytest.fixture
def turnstile(one: ProcMesh) -> Turnstile:
    return one.spawn("turnstile", Turnstile)


def runs(turnstile: Turnstile, *numbers: int) -> None:
    eventually(lambda: turnstile.state.call_one().get(timeout=WITHIN_S)[0] == list(numbers), f"{numbers} run")


def test_no_more_calls_than_the_limit_overlap_and_they_keep_their_order(turnstile: Turnstile) -> None:
    calls = [turnstile.enter.call_one(number) for number in range(5)]
    for number in range(5):
        runs(turnstile, *range(number, min(number + 2, 5)))
        turnstile.let_go.call_one(number).get(timeout=WITHIN_S)
        assert calls[number].get(timeout=WITHIN_S) == number
    assert turnstile.state.call_one().get(timeout=WITHIN_S)[1] == list(range(5))


def test_other_endpoints_go_on_beside_a_full_one(turnstile: Turnstile) -> None:
    calls = [turnstile.enter.call_one(number) for number in range(3)]
    runs(turnstile, 0, 1)
    assert turnstile.beside.call_one().get(timeout=WITHIN_S) == "beside"
    for call in calls:
        call.cancel()
    runs(turnstile)


def test_a_call_that_waits_for_its_turn_can_be_withdrawn(turnstile: Turnstile) -> None:
    calls = [turnstile.enter.call_one(number) for number in range(4)]
    runs(turnstile, 0, 1)
    calls[2].cancel()
    turnstile.let_go.call_one(0).get(timeout=WITHIN_S)
    runs(turnstile, 1, 3)
    assert turnstile.state.call_one().get(timeout=WITHIN_S)[1] == [0, 1, 3]
    for call in (calls[1], calls[3]):
        call.cancel()
    runs(turnstile)


def test_those_that_wait_for_their_turn_are_told_of_the_end_of_the_actor(one: ProcMesh) -> None:
    turnstile = one.spawn("turnstile", Turnstile)
    calls = [turnstile.enter.call_one(number) for number in range(3)]
    runs(turnstile, 0, 1)
    turnstile.stop().get(timeout=WITHIN_S)
    for call in calls:
        with pytest.raises(RuntimeError, match="was stopped"):
            call.get(timeout=WITHIN_S)


def test_a_limit_is_a_positive_number() -> None:
    with pytest.raises(ValueError, match="limit is 0"):
        concurrent_endpoint(limit=0)
