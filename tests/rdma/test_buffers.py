"""Registrations, sizes, rights and lifetimes, in one process: to the kernel its memory is like that of others."""

from __future__ import annotations

import array
import asyncio
import gc
import mmap
import os
import pickle
import resource
import weakref
from typing import Any

import pytest
from monarch._native import build_info
from monarch.config import configured
from monarch.rdma import (
    RDMAAction,
    RDMABuffer,
    RDMABufferGone,
    RDMAError,
    RDMANoBackend,
    RDMAOutOfRange,
    RDMAReadOnly,
    RDMATimeout,
    get_rdma_backend,
    is_ibverbs_available,
    is_rdma_available,
    live_buffers,
)

IS_LINUX = build_info()["platform"] == "linux"
on_linux = pytest.mark.skipif(not IS_LINUX, reason="only Linux copies between processes")


def sent(buffer: RDMABuffer) -> RDMABuffer:
    """The buffer as another process gets it."""
    copy = pickle.loads(pickle.dumps(buffer))
    assert isinstance(copy, RDMABuffer)
    return copy


@pytest.mark.skipif(IS_LINUX, reason="Linux copies between processes")
def test_where_nothing_copies_between_processes_a_registration_says_so() -> None:
    assert get_rdma_backend() == "none"
    with pytest.raises(RDMANoBackend, match="only Linux has"):
        RDMABuffer(bytearray(8))


@on_linux
def test_the_backend_is_told_and_can_be_switched_off() -> None:
    assert not is_ibverbs_available()
    with pytest.warns(DeprecationWarning, match="is_ibverbs_available"):
        assert not is_rdma_available()
    buffer = RDMABuffer(bytearray(8))
    assert (get_rdma_backend(), buffer.backend, get_rdma_backend(buffer)) == ("tcp", "tcp", "same_host")
    with configured(rdma_allow_tcp_fallback=False):
        assert get_rdma_backend() == "none"
        with pytest.raises(RuntimeError, match="rdma_allow_tcp_fallback=True"):
            RDMABuffer(bytearray(8))


@on_linux
@pytest.mark.parametrize(
    "make",
    [
        lambda: bytearray(range(64)),
        lambda: memoryview(bytearray(range(64))),
        lambda: memoryview(bytearray(range(64))).cast("I"),
        lambda: memoryview(bytearray(range(64))).cast("B", (8, 8)),
        lambda: array.array("d", range(8)),
        lambda: memoryview(bytearray(range(80)))[16:],
        lambda: mmap.mmap(-1, 64),
    ],
)
def test_any_memory_in_one_piece_is_read_and_written_whatever_its_shape_and_format(make: Any) -> None:
    owned = make()
    with RDMABuffer(owned) as buffer:
        local = bytearray(64)
        assert buffer.size() == 64
        sent(buffer).read_into(local).get()
        assert bytes(local) == memoryview(owned).tobytes()
        sent(buffer).write_from(b"\7" * 64).get()
        assert memoryview(owned).tobytes() == b"\7" * 64


@on_linux
@pytest.mark.parametrize("data", ["text", 5, memoryview(bytearray(8))[::2], memoryview(bytearray(8))[::-1]])
def test_memory_in_several_pieces_or_none_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="only supports contiguous"):
        RDMABuffer(data)


@on_linux
def test_empty_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="size 0"):
        RDMABuffer(bytearray())


@on_linux
def test_read_only_memory_is_never_written() -> None:
    owned = b"constant"
    buffer = sent(RDMABuffer(owned))
    assert buffer.read_only
    with pytest.raises(RDMAReadOnly, match="only allows reading"):
        buffer.write_from(b"x")
    with pytest.raises(ValueError, match="read-only"):
        RDMABuffer(bytearray(8)).read_into(memoryview(owned))
    with pytest.raises(ValueError, match="read-only"):
        RDMAAction().read_remote(owned, RDMABuffer(bytearray(8)))
    assert owned == b"constant"
    buffer.drop()


@on_linux
def test_a_read_only_handle_of_writable_memory_reads_and_only_the_owner_makes_one() -> None:
    with RDMABuffer(bytearray(b"content")) as buffer:
        reader = sent(buffer.as_read_only())
        local = bytearray(7)
        reader.read_into(local).get()
        assert local == b"content"
        with pytest.raises(PermissionError):
            reader.write_from(b"x")
        assert sent(buffer).as_read_only() == reader
    with pytest.raises(RDMAError, match="only the owner"):
        buffer.as_read_only()


@on_linux
def test_tails_stay_as_they_are_and_ranges_are_checked_at_once() -> None:
    owned = bytearray(b"0123456789")
    with RDMABuffer(owned) as buffer:
        local = bytearray(b"-" * 12)
        buffer.read_into(local).get()
        assert local == b"0123456789--"
        buffer.write_from(b"ab").get()
        buffer.write_from(b"xyz", offset=5, size=2).get()
        assert owned == b"ab234xy789"
        small = bytearray(2)
        buffer.read_into(small, offset=4, size=2).get()
        assert small == b"4x"
        with pytest.raises(ValueError, match="too few for 10"):
            buffer.read_into(bytearray(9))
        with pytest.raises(RDMAOutOfRange, match=r"11 bytes from offset 0 .* 10 bytes"):
            buffer.write_from(bytes(11))
        for offset, size in [(-1, 1), (10, None), (9, 2), (0, 0)]:
            with pytest.raises(RDMAOutOfRange):
                buffer.read_into(local, offset=offset, size=size)


@on_linux
def test_a_timeout_is_seconds_and_without_any_nothing_moves() -> None:
    with RDMABuffer(bytearray(8)) as buffer:
        for bad in (-1, 1 << 64):
            with pytest.raises(OverflowError):
                buffer.read_into(bytearray(8), timeout=bad)
        with pytest.raises(RDMATimeout, match="0 of 8 bytes"):
            buffer.read_into(bytearray(8), timeout=0).get()
        buffer.read_into(bytearray(8), timeout=2.5).get()


@on_linux
def test_after_a_drop_every_copy_of_the_handle_finds_nothing() -> None:
    owned = bytearray(8)
    buffer = RDMABuffer(owned)
    copy = sent(buffer)
    copy.drop().get()
    copy.drop().get()
    owned.append(1)  # nobody exports its memory any more
    for handle in (buffer, copy):
        with pytest.raises(LookupError, match="buffer not found"):
            handle.read_into(bytearray(8)).get()
        with pytest.raises(RDMABufferGone):
            handle.write_from(b"x").get()


@on_linux
def test_what_was_never_sent_ends_with_its_object_and_what_was_sent_lives_until_its_drop() -> None:
    before = len(live_buffers())
    owned = memoryview(bytearray(8))
    alive = weakref.ref(owned)
    buffer = RDMABuffer(owned)
    (line,) = live_buffers()[before:] if before == 0 else [one for one in live_buffers() if not one.exported][-1:]
    assert line.size == 8 and "test_buffers.py" in line.made_at
    del buffer, owned
    gc.collect()
    assert alive() is None and len(live_buffers()) == before
    buffer = RDMABuffer(bytearray(b"still"))
    copy = sent(buffer)
    del buffer
    gc.collect()
    local = bytearray(5)
    copy.read_into(local).get()
    assert local == b"still" and len(live_buffers()) == before + 1
    copy.drop()
    assert len(live_buffers()) == before


@on_linux
def test_an_action_moves_all_again_and_again_and_its_failures_stop_nothing() -> None:
    assert RDMAAction().submit().get() is None
    owned = [bytearray([number % 251]) * 4096 for number in range(300)]
    buffers = [RDMABuffer(memory) for memory in owned]
    local = [bytearray(4096) for _ in owned]
    action = RDMAAction()
    for memory, buffer in zip(local, buffers):
        action.read_remote(memory, buffer)
    target = bytearray(4)
    action.write_remote(RDMABuffer(target), b"done")
    for _ in range(2):
        for memory in local:
            memory[:] = bytes(4096)
        action.submit().get()
        assert local == owned and target == b"done"
    buffers[7].drop()
    local[8][:] = bytes(4096)
    with pytest.raises(RDMABufferGone, match=r"RdmaAction\.submit failed: buffer not found"):
        action.submit().get()
    assert local[8] == owned[8]
    buffers[9].drop()
    with pytest.raises(RDMAError, match=r"2 copies failed: copy 7: .*; copy 9: "):
        action.submit().get()
    for atomic in (action.fetch_add, action.compare_and_swap):
        with pytest.raises(NotImplementedError):
            atomic()


@on_linux
def test_large_transfers_arrive_whole_and_can_be_awaited_and_cancelled() -> None:
    owned = bytearray(os.urandom(1 << 16)) * 500 + b"end"
    local = bytearray(len(owned))

    async def use(buffer: RDMABuffer) -> None:
        await asyncio.gather(buffer.read_into(local), buffer.read_into(bytearray(len(owned))))
        assert local == owned
        many = RDMAAction()
        for _ in range(50):
            many.read_remote(local, buffer)
        task = asyncio.ensure_future(many.submit().as_asyncio())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with RDMABuffer(owned) as buffer:
        asyncio.run(use(buffer))


@on_linux
def test_forged_handles_find_nothing() -> None:
    with RDMABuffer(bytearray(b"secret!!")) as buffer:
        _, (wire,) = buffer.__reduce__()  # type: ignore[misc]
        for position in range(len(wire) - 16, len(wire)):
            forged = bytearray(wire)
            forged[position] ^= 1
            local = bytearray(8)
            handle = pickle.loads(pickle.dumps(buffer).replace(wire, bytes(forged)))
            with pytest.raises(RDMABufferGone):
                handle.read_into(local).get()
            assert local == bytes(8)


def register_and_drop(rounds: int) -> None:
    """Memory and descriptors stay what they are."""
    owned, local = bytearray(64), bytearray(64)
    for round in range(rounds):
        if round == rounds // 2:
            descriptors = len(os.listdir("/proc/self/fd"))
            peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with RDMABuffer(owned) as buffer:
            if round % 10 == 0:
                sent(buffer).read_into(local).get()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kb < 1024


@on_linux
def test_registrations_that_come_and_go_leave_nothing() -> None:
    register_and_drop(20_000)


@on_linux
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_million_registrations_that_come_and_go_leave_nothing() -> None:
    register_and_drop(1_000_000)


@on_linux
@pytest.mark.torch
def test_tensors_of_any_shape_and_type_are_memory_and_those_that_are_not_contiguous_are_refused() -> None:
    import torch

    owned = torch.arange(24, dtype=torch.float32).reshape(4, 6).requires_grad_()
    with RDMABuffer(owned.detach()[1:3]) as buffer:
        local = torch.zeros(12)
        assert buffer.size() == 48
        sent(buffer).read_into(local).get()
        assert local.tolist() == list(range(6, 18))
        sent(buffer).write_from(torch.full((12,), -1.0)).get()
    assert owned[0].tolist() == list(range(6)) and bool((owned[1:3] == -1).all())
    scalar = torch.tensor(7, dtype=torch.bfloat16)
    with RDMABuffer(scalar) as buffer:
        assert buffer.size() == 2
    with pytest.raises(ValueError, match=r"shape \(6, 4\) that is not contiguous"):
        RDMABuffer(owned.T)
    with pytest.raises(ValueError, match="size 0"):
        RDMABuffer(torch.empty(0))
