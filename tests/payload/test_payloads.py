"""Large values arrive as plain pickling would have them, writable and their receiver's own."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st
from monarch._actor.out_of_band import OUT_OF_BAND_BYTES
from monarch._actor.pickling import dumps, loads
from monarch.actor import ActorMesh, Channel, ProcMesh, this_proc
from payload_actors import LARGE_BYTES, Keeper

Spawn = Callable[..., ProcMesh]
WITHIN_S = 60.0
COUNT = 200_000

arrays = {
    "bytes": np.arange(LARGE_BYTES).astype(np.uint8),
    "bool": np.arange(COUNT) % 3 == 0,
    "big-endian": np.arange(COUNT, dtype=">i4"),
    "float16": np.linspace(0, 1, COUNT, dtype=np.float16),
    "complex": np.arange(COUNT) * 1j,
    "dates": np.datetime64("2020-01-01") + np.arange(COUNT),
    "text": np.array(["a", "bcd"] * (COUNT // 8)),
    "records": np.zeros(COUNT // 8, [("x", "f8"), ("y", "i2", 3)]),
    "fortran": np.asfortranarray(np.arange(600 * 500.0).reshape(600, 500)),
    "strided": np.arange(COUNT * 2.0).reshape(-1, 4)[::2, 1:],
    "transposed": np.arange(COUNT * 2.0).reshape(10, 40, -1).transpose(2, 0, 1),
    "reversed": np.arange(COUNT)[::-1],
    "broadcast": np.broadcast_to(np.arange(1000.0), (300, 1000)),
    "objects": np.array([None, {"a": 1}] * 20_000, dtype=object),
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 5)),
    "masked": np.ma.masked_array(np.arange(COUNT), np.arange(COUNT) % 2),
    "matrix of records": np.rec.fromarrays([np.arange(COUNT), np.arange(COUNT) / 2], names="a,b"),
}


@pytest.fixture
def keepers(spawn_procs: Spawn) -> ActorMesh[Keeper]:
    return spawn_procs(per_host={"gpus": 4}).spawn("keepers", Keeper)


@pytest.fixture
def keeper(spawn_procs: Spawn) -> ActorMesh[Keeper]:
    return spawn_procs(per_host={"gpus": 1}).spawn("keeper", Keeper)


def test_arrays_of_every_kind_arrive_as_plain_pickling_would_have_them(keeper: Any) -> None:
    for name, array in arrays.items():
        plain = pickle.loads(pickle.dumps(array, 5))
        received = keeper.echo.call_one(array).get(timeout=WITHIN_S)
        assert type(received) is type(plain), name
        assert (received.dtype, received.shape, received.strides) == (plain.dtype, plain.shape, plain.strides), name
        np.testing.assert_array_equal(received, plain, err_msg=name)
        assert received.flags.writeable, name


blobs = st.binary(min_size=1, max_size=8).map(lambda piece: piece * (OUT_OF_BAND_BYTES // len(piece) + 1))
texts = st.text(min_size=1, max_size=8).map(lambda piece: piece * (OUT_OF_BAND_BYTES // len(piece) + 1))
leaves = (
    st.none() | st.integers() | st.binary() | st.text() | blobs | texts | blobs.map(bytearray)
    | np_st.arrays(np_st.scalar_dtypes(), st.tuples(st.sampled_from([1, 3, 40_000]), st.sampled_from([1, 2])))
)  # fmt: skip
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6)


def assert_same(value: Any, other: Any) -> None:
    assert type(value) is type(other)
    if isinstance(value, np.ndarray):
        assert value.dtype == other.dtype
        np.testing.assert_array_equal(value, other)
    elif isinstance(value, list):
        assert len(value) == len(other)
        for pair in zip(value, other):
            assert_same(*pair)
    elif isinstance(value, dict):
        assert list(value) == list(other)
        for key in value:
            assert_same(value[key], other[key])
    else:
        assert value == other


@settings(deadline=None, max_examples=40)
@given(values, st.booleans())
def test_whatever_is_sent_arrives_as_plain_pickling_would_have_it(value: Any, twice: bool) -> None:
    value = [value, value] if twice else value
    payload, buffers = dumps(value)
    received = loads(payload, [bytearray(buffer) for buffer in buffers])
    assert_same(received, pickle.loads(pickle.dumps(value, 5)))
    if twice:
        assert received[0] is received[1] or not isinstance(value[0], (list, dict, np.ndarray))


@pytest.mark.parametrize("size", [OUT_OF_BAND_BYTES, LARGE_BYTES])
def test_large_bytes_arrive_as_bytes_and_bytearrays_as_bytearrays(keeper: Any, size: int) -> None:
    blob = bytes(range(256)) * (size // 256)
    sent = {"blob": blob, "again": blob, "array": bytearray(blob), "text": "é" * size}
    received = keeper.echo.call_one(sent).get(timeout=WITHIN_S)
    assert received == sent
    assert [type(value) for value in received.values()] == [bytes, bytes, bytearray, str]
    assert received["blob"] is received["again"]
    assert keeper.echo.call_one(blob).get(timeout=WITHIN_S) == blob
    assert keeper.kind.call_one(blob).get(timeout=WITHIN_S) == "bytes"


def test_large_bytes_leave_the_stream_uncopied() -> None:
    blob = bytes(LARGE_BYTES)
    payload, buffers = dumps([1, blob])
    assert len(payload) < 200
    assert buffers[0] is blob


@pytest.mark.parametrize("size", [OUT_OF_BAND_BYTES, LARGE_BYTES])
def test_what_one_receiver_writes_only_it_sees(keepers: Any, size: int) -> None:
    array = np.ones(size, np.uint8).astype(np.int64)
    keepers.keep.call(array).get(timeout=WITHIN_S)
    for rank in range(4):
        keepers.slice(gpus=rank).add_to_kept.call_one(rank).get(timeout=WITHIN_S)
    sums = [sums for _, sums in keepers.sums.call().get(timeout=WITHIN_S).items()]
    assert sums == [[size * (1 + rank)] for rank in range(4)]
    assert array.sum() == size


@pytest.mark.parametrize("size", [OUT_OF_BAND_BYTES, LARGE_BYTES])
def test_sender_and_receiver_of_one_message_do_not_see_what_the_other_writes(keeper: Any, size: int) -> None:
    array = np.ones(size, np.uint8).astype(np.int64)
    keeper.keep.call_one(array).get(timeout=WITHIN_S)
    array += 1
    assert keeper.sums.call_one().get(timeout=WITHIN_S) == [size]
    shown = keeper.show.call_one().get(timeout=WITHIN_S)
    shown += 5
    assert keeper.sums.call_one().get(timeout=WITHIN_S) == [size]
    keeper.add_to_kept.call_one(7).get(timeout=WITHIN_S)
    assert (shown.sum(), array.sum()) == (size * 6, size * 2)


def test_many_arrays_in_flight_keep_their_contents(keeper: Any) -> None:
    futures = [keeper.echo.call_one(np.full(100_000 + 1000 * i, i, np.int32)) for i in range(60)]
    for i, future in enumerate(futures):
        received = future.get(timeout=WITHIN_S)
        assert (len(received), int(received.min()), int(received.max())) == (100_000 + 1000 * i, i, i)


def test_many_arrays_of_one_message_are_apart_and_one_that_is_named_twice_is_one(keeper: Any) -> None:
    sent = [np.full(20_000 + i, i) for i in range(30)]
    received = keeper.echo.call_one([*sent, sent[0]]).get(timeout=WITHIN_S)
    assert received[0] is received[-1]
    for i, array in enumerate(received[:-1]):
        array += 1
        assert int(array.sum()) == (i + 1) * (20_000 + i)


def test_an_array_goes_from_actor_to_actor(keepers: Any) -> None:
    array = np.ones(LARGE_BYTES // 8)
    one, other = keepers.slice(gpus=0), keepers.slice(gpus=1)
    assert one.pass_on.call_one(other, array).get(timeout=WITHIN_S) == [len(array)]


def test_an_actor_of_the_same_process_gets_an_array_of_its_own() -> None:
    array = np.ones(LARGE_BYTES // 8)
    local = this_proc().spawn("local_keeper", Keeper)
    local.keep.call_one(array).get(timeout=WITHIN_S)
    local.add_to_kept.call_one(1).get(timeout=WITHIN_S)
    assert local.sums.call_one().get(timeout=WITHIN_S) == [2 * len(array)]
    assert array.sum() == len(array)


def test_arrays_come_through_ports_and_channels(keeper: Any) -> None:
    array = np.arange(LARGE_BYTES // 8)
    port, receiver = Channel[Any].open()
    keeper.send_to.call_one(port, array).get(timeout=WITHIN_S)
    received = receiver.recv().get(timeout=WITHIN_S)
    received += 1
    np.testing.assert_array_equal(received, array + 1)
    np.testing.assert_array_equal(keeper.channel_of_own.call_one(array).get(timeout=WITHIN_S), array)


def test_two_threads_that_get_one_result_get_the_same_array(keeper: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            future = keeper.echo.call_one(np.arange(100_000))
            first, *others = pool.map(lambda _, future=future: future.get(timeout=WITHIN_S), range(4))
            assert all(other is first for other in others)


def test_an_error_that_carries_an_array_can_be_raised_again(keeper: Any) -> None:
    error = ValueError(np.arange(100_000))
    port, receiver = Channel[Any].open()
    keeper.send_to.call_one(port, error).get(timeout=WITHIN_S)
    received = receiver.recv().get(timeout=WITHIN_S)
    np.testing.assert_array_equal(received.args[0], error.args[0])
