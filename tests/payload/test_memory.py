"""Shared memory comes back, is bounded, and survives whoever else has to do with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import eventually
from monarch.actor import ActorMesh, ProcMesh, SupervisionError
from payload_actors import (
    LARGE_BYTES,
    Keeper,
    allow_descriptors,
    forget_other_tests,
    memory_mb,
    slab_bytes,
    slots_taken,
)

Spawn = Callable[..., ProcMesh]
WITHIN_S = 60.0


@pytest.fixture
def keepers(spawn_procs: Spawn) -> ActorMesh[Keeper]:
    return spawn_procs(per_host={"gpus": 2}).spawn("keepers", Keeper)


@pytest.fixture(autouse=True)
def what_was_lent_comes_back() -> Iterator[None]:
    forget_other_tests()
    yield
    eventually(lambda: slots_taken() == 0, "the return of all slots")


def lent(size: int = LARGE_BYTES, value: int = 1) -> np.ndarray[Any, Any]:
    return np.full(size, value, np.uint8)


def test_a_slot_is_lent_as_long_as_the_receiver_has_a_view_of_it(keepers: Any) -> None:
    one = keepers.slice(gpus=0)
    one.keep.call_one({"view of it": lent()[5:]}).get(timeout=WITHIN_S)
    assert slots_taken() == 1
    one.drop.call_one().get(timeout=WITHIN_S)
    eventually(lambda: slots_taken() == 0, "the return of the slot")


def test_a_slot_that_many_see_is_lent_until_the_last_of_them_drops_it(keepers: Any) -> None:
    keepers.keep.call(lent()).get(timeout=WITHIN_S)
    keepers.slice(gpus=0).drop.call_one().get(timeout=WITHIN_S)
    assert slots_taken() == 1
    keepers.slice(gpus=1).drop.call_one().get(timeout=WITHIN_S)
    eventually(lambda: slots_taken() == 0, "the return of the slot")


def test_what_a_receiver_drops_without_saying_anything_comes_back_too(keepers: Any) -> None:
    one = keepers.slice(gpus=0)
    one.keep.broadcast(lent())
    eventually(lambda: slots_taken() == 1 or None, "the slot to be lent")
    one.drop.broadcast()
    eventually(lambda: slots_taken() == 0, "the return of the slot")


def test_a_result_is_lent_by_the_actor_and_comes_back_to_it(keepers: Any) -> None:
    one = keepers.slice(gpus=0)
    result = one.echo.call_one(lent(value=3)).get(timeout=WITHIN_S)
    assert one.slots_taken.call_one().get(timeout=WITHIN_S) == 1
    assert int(result.min()) == 3
    del result
    eventually(lambda: one.slots_taken.call_one().get(timeout=WITHIN_S) == 0, "the return of the result's slot")


def test_memory_stays_flat_over_thousands_of_sends(keepers: Any) -> None:
    one = keepers.slice(gpus=0)
    arrays = [lent(100_000), lent(700_000), lent(LARGE_BYTES)]

    def send(times: int) -> None:
        for i in range(times):
            target = keepers.echo.call if i % 10 == 0 else one.echo.call_one
            target(arrays[i % 3]).get(timeout=WITHIN_S)

    send(300)
    before = memory_mb(), one.memory_mb.call_one().get(timeout=WITHIN_S), slab_bytes()
    send(2000)
    after = memory_mb(), one.memory_mb.call_one().get(timeout=WITHIN_S), slab_bytes()
    assert all(now < then + 30 for now, then in zip(after[:2], before[:2])), (before, after)
    assert after[2] <= before[2] + (16 << 20), (before, after)


def test_what_a_killed_receiver_had_is_given_back_to_the_system(faults: list[Any], keepers: Any) -> None:
    one, other = keepers.slice(gpus=0), keepers.slice(gpus=1)
    keepers.keep.call(lent()).get(timeout=WITHIN_S)
    one.keep.call_one(lent()).get(timeout=WITHIN_S)
    os.kill(one.pid.call_one().get(timeout=WITHIN_S), signal.SIGKILL)
    with pytest.raises(SupervisionError):
        one.drop.call_one().get(timeout=WITHIN_S)
    eventually(lambda: faults, "the news of the failure")
    assert other.sums.call_one().get(timeout=WITHIN_S) == [LARGE_BYTES]
    other.drop.call_one().get(timeout=WITHIN_S)
    eventually(lambda: slots_taken() == 0, "the end of the leases")
    for value in range(20):
        assert other.add.call_one(lent(value=value), 1).get(timeout=WITHIN_S) == LARGE_BYTES * (value + 1)


def test_what_was_received_outlives_its_sender(faults: list[Any], keepers: Any) -> None:
    one = keepers.slice(gpus=0)
    received = one.echo.call_one(lent(value=3)).get(timeout=WITHIN_S)
    os.kill(one.pid.call_one().get(timeout=WITHIN_S), signal.SIGKILL)
    with pytest.raises(SupervisionError):
        one.drop.call_one().get(timeout=WITHIN_S)
    eventually(lambda: faults, "the news of the failure")
    received += 1
    assert (int(received.min()), int(received.max())) == (4, 4)


def test_what_a_forked_child_of_the_receiver_sees_is_not_used_again(keepers: Any) -> None:
    one = keepers.slice(gpus=0)
    one.keep.call_one(lent(value=3)).get(timeout=WITHIN_S)
    one.fork_and_drop.call_one().get(timeout=WITHIN_S)
    eventually(lambda: slots_taken() == 0, "the end of the lease")
    for _ in range(5):
        one.keep.call_one(lent(value=9)).get(timeout=WITHIN_S)
    assert one.ask_child.call_one().get(timeout=WITHIN_S) == 3 * LARGE_BYTES
    one.drop.call_one().get(timeout=WITHIN_S)


def test_what_finds_no_slab_any_more_arrives_all_the_same(keepers: Any) -> None:
    one = keepers.slice(gpus=0)
    size, count = 1_200_000, 140
    for value in range(count):
        one.keep.call_one(lent(size, value)).get(timeout=WITHIN_S)
    assert 100 < slots_taken() < count
    assert one.sums.call_one().get(timeout=WITHIN_S) == [size * value for value in range(count)]
    one.add_to_kept.call_one(1).get(timeout=WITHIN_S)
    assert one.sums.call_one().get(timeout=WITHIN_S) == [size * (value + 1) for value in range(count)]
    one.drop.call_one().get(timeout=WITHIN_S)


@pytest.mark.parametrize("many", [False, True])
def test_a_receiver_without_descriptors_gets_everything_in_order(keepers: Any, many: bool) -> None:
    one = keepers.slice(gpus=0)
    one.keep.call_one(np.zeros(3)).get(timeout=WITHIN_S)  # imports what it needs while it can
    one.sums.call_one().get(timeout=WITHIN_S)
    one.drop.call_one().get(timeout=WITHIN_S)
    one.allow_descriptors.call_one(False).get(timeout=WITHIN_S)
    for i in range(1, 6):
        value = lent(LARGE_BYTES * i, i)
        (keepers if many else one).keep.broadcast(value)
        one.keep.broadcast(np.full(3, i))
    expected = [total for i in range(1, 6) for total in (LARGE_BYTES * i * i, 3 * i)]
    assert one.sums.call_one().get(timeout=WITHIN_S) == expected
    one.allow_descriptors.call_one(True).get(timeout=WITHIN_S)
    keepers.drop.call().get(timeout=WITHIN_S)


def test_a_sender_without_descriptors_sends_all_the_same(keepers: Any) -> None:
    one = keepers.slice(gpus=0)
    one.pid.call_one().get(timeout=WITHIN_S)
    allow_descriptors(False)
    try:
        sums = [one.add.call_one(lent(LARGE_BYTES * 5 + i), 0).get(timeout=WITHIN_S) for i in range(3)]
    finally:
        allow_descriptors(True)
    assert sums == [LARGE_BYTES * 5 + i for i in range(3)]


def test_nothing_has_a_name_in_shared_memory(keepers: Any) -> None:
    before = set(Path("/dev/shm").iterdir()) if Path("/dev/shm").exists() else set()
    keepers.keep.call(lent()).get(timeout=WITHIN_S)
    assert slots_taken() == 1
    names = set(Path("/dev/shm").iterdir()) if Path("/dev/shm").exists() else set()
    assert not [path for path in names - before if path.name.startswith("monarch")]
    keepers.drop.call().get(timeout=WITHIN_S)
