"""`Future`: many observers, threads and loops, timeouts, cancellation, callbacks."""

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
import threading
import time
import traceback
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
from monarch.actor import ActorError, Future, ProcMesh
from sample_actors import Async, Echo, Gate, Tally


def test_a_future_is_made_by_the_library_only() -> None:
    with pytest.raises(TypeError, match="cannot be constructed"):
        Future()


def test_get_result_and_await_give_the_same_value_again_and_again(one: ProcMesh) -> None:
    future = one.spawn("echo", Echo).echo.call_one([1])
    value = future.get()

    async def await_twice() -> tuple[object, object]:
        return await future, await future

    assert value is future.get() is future.result()
    assert asyncio.run(await_twice()) == (value, value)
    assert future.exception() is None
    assert future.done()


def test_a_timeout_leaves_the_call_running(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    gate = one.spawn("gate", Gate)
    future = gate.wait_for.call_one(str(go))
    with pytest.raises(TimeoutError, match=r"gate.wait_for: no result after 0.05 s"):
        future.get(timeout=0.05)
    with pytest.raises(TimeoutError):
        future.get(timeout=0)
    assert isinstance(future.exception(timeout=0), TimeoutError)
    assert not future.done()
    go.touch()
    assert future.get() == "done"


def test_a_timeout_names_the_ranks_that_have_not_answered(grid: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    gate = grid.spawn("gate", Gate)
    late = gate.slice(row=1, col=0).wait_for.call_one(str(go))
    future = gate.count.call()
    with pytest.raises(TimeoutError, match=r"3 of 4 ranks have answered, not {'row': 1/2, 'col': 0/2}$"):
        future.get(timeout=2)
    go.touch()
    late.get()
    assert sorted(future.get().values()) == [0, 0, 0, 1]


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_a_senseless_timeout_is_refused(one: ProcMesh, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout is"):
        one.spawn("echo", Echo).echo.call_one(1).get(timeout=timeout)


def test_all_threads_that_wait_get_the_value(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    future = one.spawn("gate", Gate).wait_for.call_one(str(go))
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(future.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.touch()
    for thread in threads:
        thread.join()
    assert seen == ["done"] * 8


def test_several_loops_and_a_thread_observe_one_future(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    future = one.spawn("gate", Gate).wait_for.call_one(str(go))
    seen: list[str] = []

    async def observe() -> None:
        seen.extend(await asyncio.gather(future, future, future.as_asyncio()))

    threads = [threading.Thread(target=lambda: asyncio.run(observe())) for _ in range(2)]
    for thread in threads:
        thread.start()
    go.touch()
    for thread in threads:
        thread.join()
    assert seen == ["done"] * 6


def test_a_wait_that_asyncio_gives_up_can_be_repeated(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    future = one.spawn("gate", Gate).wait_for.call_one(str(go))

    async def give_up_then_wait() -> str:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(future, 0.02)
        go.touch()
        return await asyncio.wait_for(future, 20)

    assert asyncio.run(give_up_then_wait()) == "done"


def test_as_asyncio_needs_a_running_loop(one: ProcMesh) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        one.spawn("echo", Echo).echo.call_one(1).as_asyncio()


def test_each_observer_gets_its_own_copy_of_the_error(one: ProcMesh) -> None:
    future = one.spawn("echo", Echo).fail.call_one(ValueError("x"))
    errors = []
    for _ in range(3):
        with pytest.raises(ValueError) as caught:
            future.get()
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 3
    assert len({len(traceback.extract_tb(error.__traceback__)) for error in errors}) == 1


def test_callbacks_run_on_one_thread_that_is_not_the_main_one(one: ProcMesh) -> None:
    echo = one.spawn("echo", Echo)
    seen: list[tuple[object, str]] = []
    both = threading.Semaphore(0)

    def note(future: Future[object]) -> None:
        seen.append((future.get(), threading.current_thread().name))
        both.release()

    future = echo.echo.call_one(1)
    future.add_done_callback(note)
    future.get()
    future.add_done_callback(note)
    for _ in range(2):
        assert both.acquire(timeout=20)
    assert seen == [(1, "monarch-callbacks")] * 2


def test_cancel_withdraws_a_call_that_still_waits(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    gate = one.spawn("gate", Gate)
    tally = gate.wait_for.call_one(str(go))
    waiting = gate.wait_for.call_one(str(go))
    assert waiting.cancel()
    assert waiting.cancelled()
    assert waiting.done()
    assert not waiting.cancel()
    with pytest.raises(CancelledError, match=r"gate\.wait_for"):
        waiting.get()
    # What came by the same link before this answer has arrived: the withdrawal too.
    one.spawn("neighbour", Gate).count.call_one().get()
    go.touch()
    tally.get()
    assert gate.count.call_one().get() == 1


def test_cancel_cancels_a_running_async_endpoint(one: ProcMesh) -> None:
    actor = one.spawn("async", Async)
    running = actor.wait_for_ever.call_one()
    assert running.cancel()
    # The actor has served `wait_for_ever` or never begun it, and is free again either way.
    assert "end a" in (actor.step.call_one("a").get() or actor.seen.call_one().get())
    seen = actor.seen.call_one().get()
    assert ("waits" in seen) == ("cancelled" in seen)


def test_cancel_wakes_who_waits(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    future = one.spawn("gate", Gate).wait_for.call_one(str(go))
    seen: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: seen.append(future.exception()))
    thread.start()
    assert future.cancel()
    thread.join(timeout=20)
    go.touch()
    assert isinstance(seen[0], CancelledError)


def test_cancel_disowns_a_running_sync_endpoint(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    gate = one.spawn("gate", Gate)
    future = gate.wait_for.call_one(str(go))
    while not Path(f"{go}.started").exists():
        time.sleep(0.001)
    assert future.cancel()
    go.touch()
    assert gate.count.call_one().get() == 1


def test_awaiting_a_cancelled_future_is_asyncios_cancellation(one: ProcMesh) -> None:
    future = one.spawn("async", Async).wait_for_ever.call_one()
    future.cancel()

    async def observe() -> None:
        await future

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(observe())


def test_get_on_a_running_loop_warns_and_names_the_line(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    future = one.spawn("gate", Gate).wait_for.call_one(str(go))

    async def block() -> None:
        with pytest.warns(UserWarning, match="blocks the running event loop") as seen, pytest.raises(TimeoutError):
            future.get(timeout=0.001)
        assert seen[0].filename == __file__

    asyncio.run(block())
    go.touch()
    assert future.get(timeout=20) == "done"


def test_a_future_cannot_be_pickled(one: ProcMesh) -> None:
    with pytest.raises(TypeError, match=r"Future of tally.add cannot be pickled"):
        pickle.dumps(one.spawn("tally", Tally, 0).add.call_one(1))


def test_a_future_that_is_done_dies_without_python_code_in_which_ctrl_c_would_be_lost(one: ProcMesh) -> None:
    future = one.spawn("tally", Tally, 0).add.call_one(1)
    future.get(timeout=20)
    entered: list[str] = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        del future
    finally:
        sys.setprofile(None)
    assert not entered


def test_an_error_that_nobody_retrieved_is_printed_once(one: ProcMesh, capfd: pytest.CaptureFixture[str]) -> None:
    future = one.spawn("echo", Echo).fail.call_one(ValueError("unseen"))
    while not future.done():
        time.sleep(0.001)
    del future
    gc.collect()
    printed = capfd.readouterr().err
    assert printed.count("the error of echo.fail was never retrieved") == 1
    assert "unseen" in printed


def test_an_error_that_was_retrieved_is_not_printed(one: ProcMesh, capfd: pytest.CaptureFixture[str]) -> None:
    future = one.spawn("echo", Echo).fail.call_one(ValueError("seen"))
    with pytest.raises(ActorError):
        future.get()
    del future
    gc.collect()
    assert "never retrieved" not in capfd.readouterr().err


def test_asyncio_wait_takes_futures(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)

    async def both() -> list[object]:
        calls = [echo.slice(row=0, col=col).echo.call_one(col) for col in range(2)]
        done, pending = await asyncio.wait(calls, timeout=20)
        assert not pending
        return sorted(call.result() for call in done)

    assert asyncio.run(both()) == [0, 1]


def test_a_removed_callback_is_not_called(one: ProcMesh, tmp_path: Path) -> None:
    go = tmp_path / "go"
    future = one.spawn("gate", Gate).wait_for.call_one(str(go))
    seen: list[str] = []

    def never(_: object) -> None:
        seen.append("removed")

    last = threading.Event()
    future.add_done_callback(never)
    assert future.remove_done_callback(never) == 1
    future.add_done_callback(lambda _: last.set())
    go.touch()
    assert last.wait(20)
    assert seen == []
