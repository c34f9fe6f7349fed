"""What a fast sender has sent to a slow receiver stays within the window, and nobody waits for longer than it takes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flowing_actors import AT_LEAST, AT_MOST, SIZE, WINDOW, AsyncTaker, Gate, Owner, Sending, Taker, pss
from monarch.actor import Channel, HostMesh, ProcMesh, SupervisionError, this_proc

DATA = bytes(SIZE)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    yield Gate(tmp_path)


def test_a_sender_waits_for_a_slow_receiver_and_goes_on_with_it(
    spawn_procs: Callable[..., ProcMesh], gate: Gate
) -> None:
    taker = spawn_procs().spawn("taker", Taker)
    taker.hold.broadcast(gate.path)
    sending = Sending(lambda number: taker.take.broadcast("me", number, DATA), 10 * AT_MOST)
    assert sending.stops_within(AT_LEAST, AT_MOST)
    gate.open()
    sending.join()
    assert taker.taken.call_one().get(timeout=30) == [("me", number) for number in range(10 * AT_MOST)]


def test_small_messages_are_bounded_too(spawn_procs: Callable[..., ProcMesh], gate: Gate) -> None:
    taker = spawn_procs().spawn("taker", Taker)
    taker.hold.broadcast(gate.path)
    most = WINDOW // 512
    sending = Sending(lambda number: taker.take.broadcast("me", number, b""), 4 * most)
    assert sending.stops_within(most // 2, most)
    gate.open()
    sending.join()
    assert taker.taken.call_one().get(timeout=30) == [("me", number) for number in range(4 * most)]


def test_a_message_larger_than_the_window_goes_alone(spawn_procs: Callable[..., ProcMesh], gate: Gate) -> None:
    taker = spawn_procs().spawn("taker", Taker)
    taker.hold.broadcast(gate.path)
    sending = Sending(lambda number: taker.take.broadcast("me", number, bytes(2 * WINDOW)), 3)
    assert sending.stops_within(0, 1)
    gate.open()
    sending.join()
    assert len(taker.taken.call_one().get(timeout=30)) == 3


def test_calls_wait_as_broadcasts_do(spawn_procs: Callable[..., ProcMesh], gate: Gate) -> None:
    taker = spawn_procs().spawn("taker", Taker)
    taker.hold.broadcast(gate.path)
    futures: list[Any] = []
    sending = Sending(lambda number: futures.append(taker.take.call_one("me", number, DATA)), 3 * AT_MOST)
    assert sending.stops_within(AT_LEAST, AT_MOST)
    gate.open()
    sending.join()
    for future in futures:
        future.get(timeout=30)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads memory from Linux's /proc")
def test_the_memory_of_a_slow_receiver_is_bounded(spawn_procs: Callable[..., ProcMesh], gate: Gate) -> None:
    taker = spawn_procs().spawn("taker", Taker)
    pid = taker.pid.call_one().get(timeout=30)
    before = pss(pid)
    taker.hold.broadcast(gate.path)
    data = bytes(WINDOW // 8)
    sending = Sending(lambda number: taker.measure.broadcast(number, data), 1024)
    assert sending.stops_within(6, 8)
    bound = before + WINDOW + (16 << 20)
    assert pss(pid) < bound
    gate.open()
    sending.join()
    assert taker.largest_pss.call_one().get(timeout=30) < bound


def test_one_slow_member_holds_up_a_cast_to_all_but_not_to_the_others(
    spawn_procs: Callable[..., ProcMesh], gate: Gate
) -> None:
    takers = spawn_procs(per_host={"gpus": 2}).spawn("takers", Taker)
    slow, fast = takers.slice(gpus=0), takers.slice(gpus=1)
    slow.hold.broadcast(gate.path)
    sending = Sending(lambda number: takers.take.broadcast("all", number, DATA), 2 * AT_MOST)
    assert sending.stops_within(AT_LEAST, AT_MOST)
    for number in range(4 * AT_MOST):
        fast.take.broadcast("one", number, DATA)
    assert ("one", 4 * AT_MOST - 1) in fast.taken.call_one().get(timeout=30)
    gate.open()
    sending.join()
    for seen in takers.taken.call().get(timeout=30).values():
        assert [number for sender, number in seen if sender == "all"] == list(range(2 * AT_MOST))


def test_a_port_that_is_read_late_holds_up_its_sender(spawn_procs: Callable[..., ProcMesh]) -> None:
    taker = spawn_procs().spawn("taker", Taker)
    port, receiver = Channel[bytes].open()
    flood = taker.flood_port.call_one(port, 4 * AT_MOST, SIZE)
    waiting = Sending(lambda _: flood.get(timeout=30), 1)
    assert waiting.stops_within(0, 0)
    for number in range(4 * AT_MOST):
        assert int.from_bytes(receiver.recv().get(timeout=30)[:4], "big") == number
    waiting.join()


def test_ctrl_c_ends_a_wait_for_room(spawn_procs: Callable[..., ProcMesh], gate: Gate) -> None:
    taker = spawn_procs().spawn("taker", Taker)
    taker.hold.broadcast(gate.path)
    sent = 0
    progress = threading.Condition()

    def press() -> None:
        with progress:
            progress.wait_for(lambda: sent >= AT_LEAST)
            while progress.wait_for(lambda before=sent: sent > before, 0.5):
                pass
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        while sent <= AT_MOST:
            taker.take.broadcast("me", sent, DATA)
            with progress:
                sent += 1
                progress.notify()
    pressing.join()
    gate.open()
    assert taker.taken.call_one().get(timeout=30) == [("me", number) for number in range(sent)]


@pytest.mark.parametrize("adverb", ["broadcast", "call_one"])
def test_the_death_of_the_receiver_ends_the_wait(
    spawn_procs: Callable[..., ProcMesh], gate: Gate, faults: list[Any], adverb: str
) -> None:
    taker = spawn_procs().spawn("taker", Taker)
    pid = taker.pid.call_one().get(timeout=30)
    taker.hold.broadcast(gate.path)
    results: list[Any] = []
    sending = Sending(lambda number: results.append(getattr(taker.take, adverb)("me", number, DATA)), AT_MOST + 1)
    assert sending.stops_within(AT_LEAST, AT_MOST)
    os.kill(pid, signal.SIGKILL)
    sending.join()
    if adverb == "call_one":
        for future in results:
            with pytest.raises(SupervisionError):
                future.get(timeout=30)


def test_a_stop_passes_a_full_queue(spawn_procs: Callable[..., ProcMesh]) -> None:
    taker = spawn_procs().spawn("taker", AsyncTaker)
    taker.never.broadcast()
    sending = Sending(lambda number: taker.take.broadcast("me", number, DATA), AT_MOST + 1)
    assert sending.stops_within(AT_LEAST, AT_MOST)
    taker.stop().get(timeout=30)
    assert isinstance(sending.outcome(), SupervisionError | None)


def test_news_of_a_death_passes_a_full_queue(spawn_procs: Callable[..., ProcMesh], faults: list[Any]) -> None:
    procs = spawn_procs(per_host={"gpus": 2})
    port, receiver = Channel[str].open()
    owner = procs.slice(gpus=0).spawn("owner", Owner, procs.slice(gpus=1), port)
    pid = owner.child_pid.call_one().get(timeout=30)
    owner.never.broadcast()
    sending = Sending(lambda number: owner.take.broadcast("me", number, DATA), AT_MOST + 1)
    assert sending.stops_within(AT_LEAST, AT_MOST)
    os.kill(pid, signal.SIGKILL)
    assert "child" in receiver.recv().get(timeout=30)
    owner.stop().get(timeout=30)
    assert isinstance(sending.outcome(), SupervisionError | None)


def test_what_an_actor_sends_within_its_process_never_waits(gate: Gate) -> None:
    taker = this_proc().spawn("taker", Taker)
    taker.hold.broadcast(gate.path)
    for number in range(3 * AT_MOST):
        taker.take.broadcast("me", number, DATA)
    gate.open()
    assert len(taker.taken.call_one().get(timeout=30)) == 3 * AT_MOST


def test_a_sender_waits_for_a_slow_receiver_on_another_host(attach: Callable[..., HostMesh], gate: Gate) -> None:
    procs = attach(2).spawn_procs(per_host={"gpus": 1})
    try:
        takers = procs.spawn("takers", Taker)
        sender, slow = takers.slice(hosts=0), takers.slice(hosts=1)
        slow.hold.broadcast(gate.path)
        mine = Sending(lambda number: slow.take.broadcast("me", number, DATA), 4 * AT_MOST)
        assert mine.stops_within(AT_LEAST, AT_MOST)
        flood = sender.flood.call_one(slow, "other", 4 * AT_MOST, SIZE)
        with pytest.raises(TimeoutError):
            flood.get(timeout=0.2)
        gate.open()
        mine.join()
        flood.get(timeout=30)
        deadline = time.monotonic() + 30
        seen: list[Any] = []
        while len(seen) < 8 * AT_MOST and time.monotonic() < deadline:  # the last of the other's may come later
            seen = slow.taken.call_one().get(timeout=30)
        for name in ("me", "other"):
            assert [number for sender, number in seen if sender == name] == list(range(4 * AT_MOST))
    finally:
        procs.stop().get(timeout=30)


def test_a_cast_over_hosts_waits_for_its_slow_member(attach: Callable[..., HostMesh], gate: Gate) -> None:
    procs = attach(3).spawn_procs(per_host={"gpus": 2})
    try:
        takers = procs.spawn("takers", Taker)
        sender, others = takers.slice(hosts=0, gpus=0), takers.slice(hosts=slice(1, 3))
        slow = others.slice(hosts=1, gpus=1)
        for _ in range(2):  # The ways are open then: each cast is one message for each host.
            others.taken.call().get(timeout=30)
        slow.hold.broadcast(gate.path)
        mine = Sending(lambda number: others.take.broadcast("me", number, DATA), 4 * AT_MOST)
        assert mine.stops_within(AT_LEAST, AT_MOST)
        flood = sender.flood.call_one(others, "other", 4 * AT_MOST, SIZE)
        with pytest.raises(TimeoutError):
            flood.get(timeout=0.2)
        gate.open()
        mine.join()
        flood.get(timeout=30)
        for member in others.flatten("member"):
            deadline = time.monotonic() + 30
            seen: list[Any] = []
            while len(seen) < 8 * AT_MOST and time.monotonic() < deadline:
                seen = member.taken.call_one().get(timeout=30)
            for name in ("me", "other"):
                assert [number for sender, number in seen if sender == name] == list(range(4 * AT_MOST))
    finally:
        procs.stop().get(timeout=30)
