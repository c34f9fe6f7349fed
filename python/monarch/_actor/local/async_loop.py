"""The life of an actor with an event loop: still one message at a time, also across awaits.

Concurrent endpoints, `__supervise__` and what the actor's own code starts run beside that, as tasks of their own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import get_ident

from monarch import _native
from monarch._actor import settings
from monarch._actor.context import Context, _context
from monarch._actor.local.inbox import Inbox
from monarch._actor.local.lane import Lane
from monarch._actor.local.overtime import Interrupted, cleanup_took_too_long

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch._actor.failure import MeshFailure
    from monarch._actor.local.actor import Handler, LocalActor
    from monarch._actor.local.inbox import CallId
    from monarch._actor.undeliverable import UndeliverableMessageEnvelope

# How much later than one that waits a `__cleanup__` is ended that blocks the loop, which could cancel it.
BLOCKED_CLEANUP_S = 0.5

# After so many messages without a pause, let other tasks of the loop run.
MESSAGES_IN_A_ROW = 64


class AsyncLoop:
    """Runs on the actor's thread; a notifier tells its event loop of messages."""

    is_async = True

    def __init__(self, actor: LocalActor) -> None:
        self._actor = actor
        self._inbox = Inbox()
        self._thread = get_ident()
        self._notifier = _native.Notifier()
        self._something_came: asyncio.Future[None] | None = None
        self._dispatcher: asyncio.Task[None] | None = None
        self._serving: _native.Message | None = None  # by the dispatcher itself
        # By call, or by the task where nobody waits.
        self._concurrent: dict[object, tuple[asyncio.Task[None], _native.Message]] = {}
        self._lanes: dict[str, Lane] = {}  # by endpoint
        self._supervisor: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """From any thread: look at `over` and `failures` again."""
        self._notifier.push(0)

    def unanswered(self) -> list[_native.Message]:
        """What it has taken in and not answered."""
        serving = [self._serving] if self._serving is not None else []
        in_lanes = [message for lane in self._lanes.values() for message, _ in lane.waiting]
        return [*serving, *(message for _, message in self._concurrent.values()), *in_lanes, *self._inbox.waiting]

    def keeps_own_messages_waiting(self, blocking: bool) -> bool:
        if get_ident() != self._thread:
            return False
        return blocking or (self._serving is not None and asyncio.current_task() is self._dispatcher)

    def run(self, construct: Callable[[], bool]) -> Exception | None:
        """Until the clean-up is done, whose error this returns."""
        loop = asyncio.new_event_loop()
        try:
            asyncio.set_event_loop(loop)
            return self._run_through(loop, loop.create_task(self._live(construct)))
        finally:
            _close(loop)

    def _run_through(self, loop: asyncio.AbstractEventLoop, life: asyncio.Task[Exception | None]) -> Exception | None:
        """A `SystemExit` of some task or callback comes out of the loop: the actor fails, and goes on to its end."""
        while True:
            try:
                return loop.run_until_complete(life)
            except BaseException as error:
                if life.done():
                    raise
                self._actor.broke(error)

    async def _live(self, construct: Callable[[], bool]) -> Exception | None:
        actor = self._actor
        loop = asyncio.get_running_loop()
        self._dispatcher = asyncio.current_task()
        if construct():
            try:
                loop.add_reader(self._notifier.fileno(), self._look)
                actor.mailbox.notify(self._notifier, 0)
                await self._serve()
            except BaseException as error:  # also a cancellation, which an endpoint asked for and then returned
                actor.broke(error)
                _forget_cancellation()
        actor.overtime.begins()
        self._lanes.clear()
        tasks = [*(task for task, _ in self._concurrent.values()), *([self._supervisor] if self._supervisor else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        actor.overtime.ends()
        children = actor.stop_children(f"its owner {actor.name} ended")
        stops = {stop.as_asyncio(): root for root, stop in children}
        if stops:
            done, _ = await asyncio.wait(stops, timeout=settings.seconds("stop_actor_timeout"))
            for stop in done:
                actor.child_stopped(stops[stop], stop.exception())
        if actor.ended.is_set():
            return None
        actor.overtime.begins("cleanup_timeout", BLOCKED_CLEANUP_S)
        try:
            return await self._clean_up()
        finally:
            actor.overtime.ends()

    # --- the dispatcher -----------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        actor, waiting = self._actor, self._inbox.waiting
        in_a_row = 0
        while not actor.over:
            if not waiting:
                in_a_row = 0
                await self._until_something_comes()
                continue
            if in_a_row == MESSAGES_IN_A_ROW:
                in_a_row = 0
                await asyncio.sleep(0)
                continue
            in_a_row += 1
            await self._handle(waiting.popleft())
        waiting.clear()

    async def _until_something_comes(self) -> None:
        self._something_came = asyncio.get_running_loop().create_future()
        self._look()
        await self._something_came

    def _look(self) -> None:
        """Take in what has arrived, cancel what is to be cancelled, start supervision; wake the dispatcher."""
        self._notifier.drain()
        actor = self._actor
        for call in self._inbox.put(actor.mailbox.drain()):
            self._cancel(call)
        if actor.over:
            if self._serving is not None and self._dispatcher is not None:
                self._dispatcher.cancel()
        elif actor.failures and self._supervisor is None:
            self._supervisor = asyncio.create_task(self._supervise())
        came = self._something_came
        if (self._inbox.waiting or actor.over) and came is not None and not came.done():
            came.set_result(None)

    def _cancel(self, call: CallId) -> None:
        if self._serving is not None and self._serving.call_id == call and self._dispatcher is not None:
            self._dispatcher.cancel()
        elif call in self._concurrent:
            self._concurrent[call][0].cancel()
        else:
            for lane in self._lanes.values():
                lane.withdraw(call)

    async def _handle(self, message: _native.Message) -> None:
        actor = self._actor
        handler = actor.handler(message)
        if handler is None:
            return
        if handler.concurrent:
            lane = self._lane(handler)
            if lane is None or lane.enter(message, handler):
                self._start(message, handler)
            return
        self._serving = message
        try:
            await self._run(message, handler)
        finally:
            self._serving = None

    def _lane(self, handler: Handler) -> Lane | None:
        if handler.limit is None:
            return None
        lane = self._lanes.get(handler.label)
        if lane is None:
            lane = self._lanes[handler.label] = Lane(handler.limit)
        return lane

    def _start(self, message: _native.Message, handler: Handler) -> None:
        task = asyncio.create_task(self._run(message, handler))
        call: object = message.call_id or task
        self._concurrent[call] = task, message
        task.add_done_callback(lambda _: self._ended(call, handler))

    def _ended(self, call: object, handler: Handler) -> None:
        self._concurrent.pop(call, None)
        lane = self._lanes.get(handler.label)
        following = lane.leave() if lane is not None else None
        if following is not None:
            self._start(*following)

    async def _run(self, message: _native.Message, handler: Handler) -> None:
        actor = self._actor
        arguments = actor.arguments(message, handler)
        if arguments is None:
            return
        try:
            if handler.is_async:
                value = await handler.method(*arguments[0], **arguments[1])
            else:
                value = _without_loop(lambda: handler.method(*arguments[0], **arguments[1]))
        except asyncio.CancelledError as error:
            _forget_cancellation()
            if not actor.over:
                actor.raised(message, handler, error)
        except BaseException as error:
            actor.raised(message, handler, error)
        else:
            actor.answer(message, handler, value)

    # --- hooks --------------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        actor = self._actor
        try:
            while not actor.over and (failure := actor.failures.take()) is not None:
                self._enter_hook()
                try:
                    handled = await self._ask(failure)
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    actor.unhandled(failure, error)
                else:
                    if not handled:
                        actor.unhandled(failure, None)
        finally:
            self._supervisor = None
            self.wake()

    async def _ask(self, failure: MeshFailure | UndeliverableMessageEnvelope) -> bool:
        supervise = self._actor.hook_for(failure)
        return supervise is not None and bool(await _call_hook(supervise, failure))

    async def _clean_up(self) -> Exception | None:
        actor = self._actor
        clean_up = getattr(actor.object, "__cleanup__", None)
        if clean_up is None:
            return None
        self._enter_hook()
        try:
            await asyncio.wait_for(_call_hook(clean_up, actor.why), settings.seconds("cleanup_timeout"))
        except Interrupted:
            return cleanup_took_too_long()
        except asyncio.TimeoutError as error:
            return error if error.args else cleanup_took_too_long()
        except Exception as error:
            return error
        except BaseException as error:
            return RuntimeError(f"__cleanup__ raised {type(error).__name__}: {error}")
        return None

    def _enter_hook(self) -> None:
        rank = self._actor.rank
        _context.set(Context(self._actor.instance, rank.rank, rank.extent))


async def _call_hook(hook: Callable[..., Any], argument: object) -> Any:
    value = _without_loop(lambda: hook(argument)) if not asyncio.iscoroutinefunction(hook) else hook(argument)
    return await value if asyncio.iscoroutine(value) else value


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """As `asyncio.run` does. The actor is over by now: what is cancelled here may raise anything, and nobody cares."""
    with suppress(BaseException):
        asyncio.runners._cancel_all_tasks(loop)  # type: ignore[attr-defined]
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    asyncio.set_event_loop(None)
    loop.close()


def _without_loop(body: Callable[[], Any]) -> Any:
    """Run a plain function as if there were no event loop on this thread, so that it may block, or run one itself."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        return body()
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)


def _forget_cancellation() -> None:
    """The cancellation of one endpoint must not count against the task that goes on with the next one (Python 3.11)."""
    task: Any = asyncio.current_task()
    if hasattr(task, "uncancel"):
        while task.cancelling():
            task.uncancel()
