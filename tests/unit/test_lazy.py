"""Futures of coroutines that begin when somebody waits for them, and tasks that are described first."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any

import pytest
from monarch._rust_bindings.monarch_hyperactor.pytokio import PythonTask
from monarch.actor import Future, returns_future

WITHIN_S = 20.0


class Body:
    """A coroutine function, and what is known of its runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.cancelled = threading.Event()

    def future(self, value: Any = None, wait: bool = False) -> Future[Any]:
        return self._run(value, wait)

    @property
    def _run(self) -> Any:
        @returns_future
        async def body(value: Any, wait: bool) -> Any:
            self.runs += 1
            self.loops.append(asyncio.get_running_loop())
            try:
                await (asyncio.Event().wait() if wait else asyncio.sleep(0))
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            if isinstance(value, BaseException):
                raise value
            return value

        return body


def test_the_body_begins_with_the_first_observation_and_runs_once() -> None:
    body = Body()
    future = body.future(7)
    assert (body.runs, future.done()) == (0, False)
    assert (future.get(), future.get(), body.runs) == (7, 7, 1)
    assert asyncio.run(_awaited(future)) == 7
    assert body.runs == 1


def test_an_await_runs_it_on_the_loop_that_awaits() -> None:
    body = Body()

    async def main() -> bool:
        future = body.future(7)
        assert await asyncio.gather(future.as_asyncio(), future.as_asyncio()) == [7, 7]
        return body.loops == [asyncio.get_running_loop()]

    assert asyncio.run(main())


def test_get_on_a_running_loop_runs_it_beside() -> None:
    body = Body()

    async def main() -> bool:
        with pytest.warns(UserWarning, match="use `await` instead"):
            assert body.future(7).get() == 7
        return body.loops != [asyncio.get_running_loop()]

    assert asyncio.run(main())


def test_threads_that_wait_together_get_the_value_of_one_run() -> None:
    body = Body()
    future = body.future(7)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert [got.result(WITHIN_S) for got in [threads.submit(future.get) for _ in range(8)]] == [7] * 8
    assert body.runs == 1


def test_an_exception_is_raised_again_and_again_with_the_same_traceback() -> None:
    future = Body().future(ValueError("no"))
    depths = []
    for _ in range(3):
        with pytest.raises(ValueError, match="no") as caught:
            future.get()
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1


def test_a_get_that_expires_cancels_the_body() -> None:
    body = Body()
    future = body.future(wait=True)
    with pytest.raises(TimeoutError):
        future.get(timeout=0.05)
    assert body.cancelled.wait(WITHIN_S)
    with pytest.raises(concurrent.futures.CancelledError):
        future.get(timeout=WITHIN_S)


def test_cancelling_cancels_the_body() -> None:
    body = Body()

    async def main() -> None:
        future = body.future(wait=True)
        waiting = asyncio.ensure_future(future.as_asyncio())
        while not body.runs:
            await asyncio.sleep(0)
        assert future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        while not body.cancelled.is_set():
            await asyncio.sleep(0)

    asyncio.run(main())


def test_only_coroutine_functions_can_be_decorated() -> None:
    with pytest.raises(TypeError, match="goes on an `async def` function"):
        returns_future(lambda: 1)  # type: ignore[arg-type, return-value]


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


async def _seven() -> int:
    return 7


def test_a_task_runs_where_it_is_waited_for_and_once() -> None:
    assert PythonTask.from_coroutine(_seven()).block_on() == 7
    assert asyncio.run(_awaited(PythonTask.from_coroutine(_seven()))) == 7
    task = PythonTask.sleep(0)
    assert task.block_on() is None
    with pytest.raises(ValueError, match="PythonTask already consumed"):
        task.block_on()
    assert repr(task) == "<PythonTask consumed>"


def test_a_task_with_a_timeout_is_cancelled_by_it() -> None:
    with pytest.raises(TimeoutError, match=r"not done after 0\.01 s"):
        PythonTask.sleep(600).with_timeout(0.01).block_on()
    assert PythonTask.from_coroutine(_seven()).with_timeout(600).block_on() == 7


def test_a_task_runs_beside_once_it_is_spawned() -> None:
    begun = threading.Event()

    async def begin() -> str:
        begun.set()
        return "done"

    spawned = PythonTask.from_coroutine(begin()).spawn()
    assert begun.wait(WITHIN_S)
    assert spawned.get(timeout=WITHIN_S) == "done"
    assert PythonTask.spawn_blocking(threading.get_ident).get(timeout=WITHIN_S) != threading.get_ident()


def test_the_first_of_several_tasks_wins() -> None:
    tasks: list[PythonTask[Any]] = [PythonTask.sleep(600), PythonTask.from_coroutine(_seven())]
    assert PythonTask.select_one(tasks).block_on() == (7, 1)
