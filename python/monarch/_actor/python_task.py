"""`PythonTask`: work that is described first, and run by whoever waits for it."""

from __future__ import annotations

from monarch._actor.generics import Generic, TypeVar
from monarch._actor.lazy import eagerly, lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from typing import Any

    from monarch._actor.future import Future

R = TypeVar("R")


class PythonTask(Generic[R]):
    """A coroutine that has not begun. It runs once: `await` it, `block_on()` it, or let it run beside by `spawn()`.

    A second use raises `ValueError`.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, R]) -> None:
        self._coroutine: Coroutine[Any, Any, R] | None = coroutine

    @staticmethod
    def from_coroutine(coro: Coroutine[Any, Any, R]) -> PythonTask[R]:
        return PythonTask(coro)

    @staticmethod
    def sleep(seconds: float) -> PythonTask[None]:
        """Done after `seconds`."""

        async def sleep() -> None:
            import asyncio

            await asyncio.sleep(seconds)

        return PythonTask(sleep())

    @staticmethod
    def spawn_blocking(f: Callable[[], R]) -> Future[R]:
        """Run a function that may block in a thread of its own, now."""

        async def run() -> R:
            return f()

        return eagerly("PythonTask.spawn_blocking", run)

    @staticmethod
    def select_one(tasks: Sequence[PythonTask[R]]) -> PythonTask[tuple[R, int]]:
        """The result of whichever is done first, and its index; the others are cancelled."""

        async def select() -> tuple[R, int]:
            import asyncio

            running = [asyncio.ensure_future(task._take()) for task in tasks]
            done, pending = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            first = next(task for task in running if task in done)
            return first.result(), running.index(first)

        return PythonTask(select())

    def with_timeout(self, seconds: float) -> PythonTask[R]:
        """The same work, cancelled after `seconds`: that is a `TimeoutError`."""
        coroutine = self._take()

        async def limited() -> R:
            import asyncio

            try:
                return await asyncio.wait_for(coroutine, seconds)
            except asyncio.TimeoutError:
                raise TimeoutError(f"not done after {seconds:g} s") from None

        return PythonTask(limited())

    def block_on(self) -> R:
        """Run it and wait for its result. Ctrl-C is answered."""
        return lazily("PythonTask", self._take).get()

    def spawn(self) -> Future[R]:
        """Let it run, beside this thread, from now on."""
        coroutine = self._take()
        return eagerly("PythonTask", lambda: coroutine)

    spawn_handle = spawn

    def __await__(self) -> Generator[Any, None, R]:
        return self._take().__await__()

    def _take(self) -> Coroutine[Any, Any, R]:
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is None:
            raise ValueError("PythonTask already consumed: it runs once")
        return coroutine

    def __repr__(self) -> str:
        state = "consumed" if self._coroutine is None else getattr(self._coroutine, "__qualname__", "not begun")
        return f"<PythonTask {state}>"

    def __del__(self) -> None:
        if self._coroutine is not None:
            self._coroutine.close()  # work that nobody wanted is no mistake
