"""`Future`: the result of a call, a stop or a start that is on its way."""

from __future__ import annotations

import sys
from _thread import allocate_lock

from monarch import _native
from monarch._actor import context, progress
from monarch._actor.context import _context
from monarch._actor.generics import Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator
    from typing import Any, Protocol

    from monarch._actor.mesh_root import MeshRoot
    from monarch._actor.shape import Extent, Point

    class Awaited(Protocol):
        """What a future waits for, a `Subject` or an `Endpoint`: in words, who answers, whose death matters."""

        @property
        def label(self) -> str: ...
        @property
        def extent(self) -> Extent: ...
        @property
        def root(self) -> MeshRoot | None: ...
        def is_answered_here(self, replies: _native.Replies) -> bool: ...


R = TypeVar("R")

# States. `_WAITING` says nothing about the answers: they may be here, unseen.
_WAITING, _SEEN_ERROR, _VALUE, _CANCELLED = range(4)

# How many unanswered ranks a `TimeoutError` lists before it only counts the rest.
_LISTED_RANKS = 8

# Guards the one moment in which several observers may store the value they all decoded.
_settling = allocate_lock()

# What a future holds on to once it has its value, so that the answers can go.
_nothing_pending = _native.Replies()
_nothing_pending.complete()


class Future(Generic[R]):
    """A result that may still be on its way. Made by the library only.

    Any number of threads, coroutines and loops may observe it, before and after completion, as often as they like;
    all see the same value, or an exception of the same content (each observer gets its own copy, so tracebacks do not
    grow). The work goes on whether or not anybody waits. Works with `await`.
    """

    __slots__ = (
        "__weakref__",
        "_count",
        "_decode",
        "_interrupted",
        "_is_only",
        "_quiet",
        "_replies",
        "_state",
        "_subject",
        "_to_own_mesh",
        "_value",
    )

    if TYPE_CHECKING:
        _value: R
        _replies: _native.Replies
        _count: int
        _interrupted: bool  # by Ctrl-C, while it was waited for
        _is_only: bool
        _quiet: bool
        _state: int
        _subject: Awaited
        _to_own_mesh: bool
        _decode: Callable[[Any, _native.Replies], R]

    def __init__(self) -> None:
        raise TypeError("a Future is made by calls, spawns and stops; it cannot be constructed")

    @classmethod
    def _of(
        cls,
        replies: _native.Replies,
        count: int,
        decode: Callable[[Any, _native.Replies], R],
        subject: Awaited,
        to_own_mesh: bool = False,
        quiet: bool = False,
        is_only: bool = False,
    ) -> Future[R]:
        """A future that is done when `replies` are ready for `count`; `decode(subject, replies)` returns or raises.

        `to_own_mesh`: an actor calls its own mesh, so that waiting may be a deadlock.
        `quiet`: an error that nobody retrieves is known to be reported elsewhere.
        `is_only`: no other future waits for these answers.
        """
        self: Future[R] = object.__new__(cls)
        self._replies = replies
        self._count = count
        self._decode = decode
        self._subject = subject
        self._to_own_mesh = to_own_mesh
        self._quiet = quiet
        self._is_only = is_only
        self._interrupted = False
        self._state = _WAITING
        return self

    @classmethod
    def _now(cls, outcome: Callable[[Any], R], subject: Awaited) -> Future[R]:
        """A future that is done: `outcome(subject)` returns the value or raises the error."""
        return cls._of(_nothing_pending, 0, lambda subject, _: outcome(subject), subject, quiet=True)

    def get(self, timeout: float | None = None) -> R:
        """Wait and return the value, or raise what went wrong. Ctrl-C is answered while waiting.

        `timeout` is in seconds; 0 polls. Raises `TimeoutError` when it passes (the work goes on, `get` may be
        repeated), `ValueError` for a negative, infinite or NaN one, `concurrent.futures.CancelledError` after `cancel`,
        and `WouldBlockRuntime` (a `RuntimeError`) where waiting would be a deadlock. After Ctrl-C, too, `get` may be
        repeated; where nobody has the future any more, as of `mesh.method.call().get()`, its call is cancelled.
        """
        if self._state == _VALUE:
            return self._value
        if timeout is not None:
            self._check_bounded_wait(timeout)
        elif self._state != _CANCELLED:
            asyncio_core = sys.modules.get("_asyncio")
            if self._to_own_mesh or (asyncio_core and asyncio_core._get_running_loop() is not None):
                self._check_blocking_wait()
        if self._state != _CANCELLED:
            # A body that begins with the wait ends with it, too.
            in_stages = type(self._replies) is _native.Replies and (timeout is None or timeout > progress.PATIENCE_S)
            try:
                in_time = self._replies.wait(self._count, progress.PATIENCE_S if in_stages else timeout)
                if in_stages and not in_time:
                    left = None if timeout is None else timeout - progress.PATIENCE_S
                    in_time = progress.wait(self._subject, self._replies, self._count, left)
            except KeyboardInterrupt:
                self._interrupted = True
                del self  # the traceback is not somebody who wants the result
                raise
            if not in_time and timeout is not None:
                raise TimeoutError(self._describe_timeout(timeout))
        return self._outcome()

    result = get

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait and return the error, or None when there is a value. A timeout of the wait counts as an error."""
        try:
            self.get(timeout)
        except Exception as error:
            return error.with_traceback(None)
        return None

    def done(self) -> bool:
        """Whether there is a value, an error or a cancellation. Never blocks."""
        return self._state in (_VALUE, _CANCELLED) or self._replies.ready(self._count)

    def pending_ranks(self) -> list[Point]:
        """The ranks that have not answered, in the mesh that was called. Never blocks; empty when it is done.

        Empty also for what no ranks answer, such as a stop of processes.
        """
        if self.done():
            return []
        from monarch._actor.shape import Point

        return [Point(position, self._subject.extent) for position in self._replies.pending()]

    def cancelled(self) -> bool:
        return self._state == _CANCELLED

    def cancel(self) -> bool:
        """Give the call up; False where it is done already.

        A call that still waits for its actor is withdrawn, a running async endpoint is cancelled, a running sync one
        completes and its result is dropped.
        """
        if self.done():
            return False
        self._state = _CANCELLED
        self._replies.cancel()
        return True

    def add_done_callback(self, callback: Callable[[Future[R]], object]) -> None:
        """Call `callback(self)` once done: on the event loop that runs here, or else on the thread for all callbacks,
        in the context of the actor that adds it.

        So that a future serves wherever asyncio takes one of its own, as in `asyncio.wait`.
        """
        from monarch._actor.thread_context import run_as
        from monarch._actor.wakeups import call_on_loop, callback_thread

        asyncio_core = sys.modules.get("_asyncio")
        loop = asyncio_core._get_running_loop() if asyncio_core else None

        current = _context.get()

        def run() -> None:
            if loop is None:
                run_as(current, callback, self)
            else:
                call_on_loop(loop, callback, self)

        callback_thread().when_ready(self._replies, self._count, run, key=(self, callback))

    def remove_done_callback(self, callback: Callable[[Future[R]], object]) -> int:
        """Do not call `callback` any more; how often it would have been called."""
        from monarch._actor.wakeups import callback_thread

        return callback_thread().forget((self, callback))

    def as_asyncio(self) -> asyncio.Future[R]:
        """An asyncio future of the running loop with the same outcome. Raises `RuntimeError` without a running loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        return asyncio.ensure_future(self._awaited(), loop=loop)

    async def _awaited(self) -> R:
        return await self

    def __await__(self) -> Generator[Any, None, R]:
        if not self.done():
            import asyncio

            from monarch._actor.wakeups import waits_of

            raise_unhandled_failure()
            self._check_deadlock(blocking=False)
            loop = asyncio.get_running_loop()
            ended = progress.watch(loop, self._subject, self._replies)
            holds_up = self._hold_up()
            try:
                yield from waits_of(loop).wait(loop, self._replies, self._count)
            except asyncio.CancelledError:
                from monarch._actor.notebook import in_notebook

                if in_notebook():  # so a kernel interrupts a cell
                    self._interrupted = True
                    del self
                raise
            finally:
                if holds_up:
                    _native.Replies.let_go()
                if ended is not None:
                    ended()
        if self._state == _CANCELLED:
            import asyncio

            raise asyncio.CancelledError(f"{self._subject.label} was cancelled")
        return self._outcome()

    def _outcome(self) -> R:
        # Read before the state: whoever stores the value exchanges the answers last.
        replies = self._replies
        if self._state == _VALUE:
            return self._value
        if self._state == _CANCELLED:
            from concurrent.futures import CancelledError

            raise CancelledError(f"{self._subject.label} was cancelled")
        try:
            value = self._decode(self._subject, replies)
        except BaseException:
            self._state = _SEEN_ERROR
            raise
        with _settling:
            if self._state != _VALUE:
                self._value = value
                self._state = _VALUE
                self._replies = _nothing_pending
            return self._value

    def _check_bounded_wait(self, timeout: float) -> None:
        if not 0 <= timeout < float("inf"):
            raise ValueError(f"timeout is {timeout}: it has to be a finite number of seconds, at least 0")
        if timeout > 0 and self._state != _CANCELLED and not self._replies.ready(self._count):
            self._check_blocking_wait()

    def _describe_timeout(self, timeout: float) -> str:
        text = f"{self._subject.label}: no result after {timeout:g} s"
        pending = self._replies.pending()
        total = self._subject.extent.nelements
        if total == 1 or not pending or self._replies.expected != total:
            return text
        return f"{text}: {total - len(pending)} of {total} ranks have answered, not {self._listed(pending)}"

    def _listed(self, pending: list[int]) -> str:
        from monarch._actor.shape import Point

        shown = [str(Point(position, self._subject.extent)) for position in pending[:_LISTED_RANKS]]
        return ", ".join(shown) + (f" and {len(pending) - _LISTED_RANKS} more" if len(pending) > _LISTED_RANKS else "")

    def _check_blocking_wait(self) -> None:
        """Before blocking: refuse a sure deadlock, and say so where the wait stops an event loop."""
        raise_unhandled_failure()
        if self._replies.ready(self._count):
            return
        self._check_deadlock(blocking=True)
        asyncio_core = sys.modules.get("_asyncio")
        if asyncio_core is None or asyncio_core._get_running_loop() is None:
            return
        current = _context.get()
        if current is not None and current.may_block:
            return
        import warnings

        from monarch._actor.notebook import in_notebook

        if in_notebook():
            return

        warnings.warn(
            f"waiting for {self._subject.label} with get() blocks the running event loop; use `await` instead",
            UserWarning,
            stacklevel=_frames_of_the_library(),
        )

    def _hold_up(self) -> bool:
        """Let those know who send to an actor that it serves no other message until the end of this wait, if so."""
        current = _context.get()
        if current is None or not current.actor_instance.keeps_own_messages_waiting(blocking=False):
            return False
        replies: object = self._replies
        if not isinstance(replies, _native.Replies):
            return False
        replies.hold_up()
        return True

    def _check_deadlock(self, blocking: bool) -> None:
        if not self._to_own_mesh or not self._subject.is_answered_here(self._replies):
            return
        current = _context.get()
        if current is not None and current.actor_instance.keeps_own_messages_waiting(blocking):
            from monarch._actor.errors import WouldBlockRuntime

            raise WouldBlockRuntime(
                f"{self._subject.label} waits for a message to the actor itself, which cannot be served before the "
                "endpoint that waits has returned: a deadlock. Call the method on `self`, or do not wait here"
            )

    __del__ = _native.Finalizer(_WAITING)

    def _end_unseen(self) -> None:
        """It dies while its state is `_WAITING`."""
        if sys.is_finalizing():
            return
        try:
            if self._interrupted and self._is_only:
                self.cancel()
            elif not self._quiet:
                self._report_unseen_error()
        except (RuntimeError, AttributeError):
            pass  # a fork of the process: nobody to report to

    def _report_unseen_error(self) -> None:
        replies = self._replies
        if not replies.ready(self._count):
            return
        if all(replies.message(i).status != _native.STATUS_ERROR for i in range(replies.arrived)):
            return
        error = self.exception(0)
        if error is not None:
            print(f"monarch: the error of {self._subject.label} was never retrieved:\n{error}", file=sys.stderr)

    def __repr__(self) -> str:
        return f"<Future of {self._subject.label}: {self._describe_state()}>"

    def _describe_state(self) -> str:
        if self.cancelled():
            return "cancelled"
        if self.done():
            return "done"
        expected, pending = self._replies.expected, self._replies.pending()
        if expected < 2:
            return "pending"
        missing = f", not {self._listed(pending)}" if pending else ""
        return f"pending, {expected - len(pending)} of {expected} have answered{missing}"

    def _repr_html_(self) -> str:
        from monarch._actor import html

        return html.future(self)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError(f"the Future of {self._subject.label} cannot be pickled; send its value instead")


def _frames_of_the_library() -> int:
    """How far above the caller of this the program's own code is, for a warning that names its line."""
    library = __name__.rpartition(".")[0]
    depth = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(library):
        frame = frame.f_back
        depth += 1
    return depth


def raise_unhandled_failure() -> None:
    """In IPython: end the cell because of a failure that nobody handled while no cell was running."""
    process = context._process
    if process is not None and process.unhandled is not None:
        from monarch._actor.failure import UnhandledFailure

        failure, process.unhandled = process.unhandled, None
        raise UnhandledFailure(failure)
