"""`returns_future`: coroutine functions whose result is a `Future`, and which begin when somebody waits for it."""

from __future__ import annotations

from monarch._actor.future import Future
from monarch._actor.generics import ParamSpec, TypeVar
from monarch._actor.promise import Promise
from monarch._actor.shape import Extent

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Any

    from monarch import _native

P = ParamSpec("P")
R = TypeVar("R")


def returns_future(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Future[R]]:
    """Let an `async def` function return a `Future`. Its body begins when the future is first observed.

    The first `await` runs it on the loop that awaits; the first `get()` runs it on a loop of its own, in this thread,
    or beside it where a loop runs here already. A `get(timeout)` that expires cancels the body. Once it has ended, the
    future is like any other.
    """
    import functools
    import inspect

    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"@returns_future goes on an `async def` function, not on {function!r}")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return lazily(function.__qualname__, lambda: function(*args, **kwargs))

    return call


def lazily(label: str, make: Callable[[], Coroutine[Any, Any, R]]) -> Future[R]:
    """A future of the coroutine that `make` gives; it begins when it is first observed."""
    replies: Any = _Run(label, make)
    return Future._of(replies, 1, _outcome, _Body(label), quiet=True)


def eagerly(label: str, make: Callable[[], Coroutine[Any, Any, R]]) -> Future[R]:
    """As `lazily`; it begins now, on an event loop beside this thread."""
    run = _Run(label, make)
    run.begin_beside()
    replies: Any = run
    return Future._of(replies, 1, _outcome, _Body(label), quiet=True)


class _Body:
    """What such a future waits for."""

    extent = Extent((), ())
    root = None

    def __init__(self, label: str) -> None:
        self.label = label

    def is_answered_here(self, replies: object) -> bool:
        return False


class _Run(Promise["Any"]):
    """One run of a coroutine. To a future it is its `Replies`."""

    __slots__ = ("_label", "_loop", "_make", "_task")

    def __init__(self, label: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        super().__init__(self._cancel_body)
        self._label = label
        self._make: Callable[[], Coroutine[Any, Any, Any]] | None = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def begin_beside(self) -> None:
        """Begin on a thread with an event loop of its own, unless it has begun."""
        make = self._take()
        if make is None:
            return
        from contextvars import copy_context
        from threading import Thread

        Thread(target=copy_context().run, args=(self._run_alone, make, None), name=self._label, daemon=True).start()

    def wait(self, count: int, timeout: float | None = None) -> bool:
        if not self.ready(count) and _running_loop() is None and (make := self._take()) is not None:
            return self._run_alone(make, timeout)
        self.begin_beside()
        if super().wait(count, timeout):
            return True
        self._cancel_body()
        return False

    def notify(self, count: int, notifier: _native.Notifier, token: int) -> None:
        loop = _running_loop()
        if loop is None:
            self.begin_beside()
        elif (make := self._take()) is not None:
            self._loop = loop
            self._task = loop.create_task(self._body(make))
        super().notify(count, notifier, token)

    def _take(self) -> Callable[[], Coroutine[Any, Any, Any]] | None:
        """The body, for whoever is first to begin it."""
        with self._lock:
            make, self._make = self._make, None
        return make

    def _run_alone(self, make: Callable[[], Coroutine[Any, Any, Any]], timeout: float | None) -> bool:
        """Run the body on a loop of its own; False where the time was over first."""
        import asyncio

        async def run() -> bool:
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.create_task(self._body(make))
            _, pending = await asyncio.wait([self._task], timeout=timeout)
            for task in pending:
                task.cancel()
                await asyncio.wait([task])
            return not pending

        return asyncio.run(run())

    async def _body(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        import asyncio

        try:
            value = await make()
        except asyncio.CancelledError:
            # As `Future.get` has it: an `except Exception` catches this one.
            from concurrent.futures import CancelledError

            self.fail(CancelledError(f"{self._label} was cancelled"))
            raise
        except Exception as error:
            raised = error
            self.fail(raised)
        except BaseException as error:
            self.fail(RuntimeError(f"{self._label} raised {type(error).__name__}: {error}"))
            raise
        else:
            self.settle(lambda: value)

    def _cancel_body(self) -> None:
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    import sys

    asyncio_core = sys.modules.get("_asyncio")
    return asyncio_core._get_running_loop() if asyncio_core is not None else None


def _outcome(subject: Any, run: Any) -> Any:
    return run.outcome()
