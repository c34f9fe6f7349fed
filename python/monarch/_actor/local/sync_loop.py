"""The life of an actor whose endpoints are all plain functions: one thread, one message after the other."""

from __future__ import annotations

from threading import get_ident

from monarch import _native
from monarch._actor.context import Context, _context
from monarch._actor.local.inbox import Inbox
from monarch._actor.local.overtime import Interrupted, cleanup_took_too_long

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from monarch._actor.failure import MeshFailure
    from monarch._actor.local.actor import LocalActor
    from monarch._actor.undeliverable import UndeliverableMessageEnvelope


# Puts an end to a wait for messages; carries nothing.
WAKE = b"wake"


class SyncLoop:
    """Runs on the actor's thread. Failures of what the actor owns come before waiting messages."""

    is_async = False

    def __init__(self, actor: LocalActor) -> None:
        self._actor = actor
        self._inbox = Inbox()
        self._thread = get_ident()
        self._serving: _native.Message | None = None

    def wake(self) -> None:
        """From another thread: look at `over` and `failures` again."""
        runtime = self._actor.process.runtime
        me = _native.Targets(runtime, runtime.mesh, [runtime.rank], self._actor.actor)
        me.cast(self._actor.actor, WAKE, b"")

    def unanswered(self) -> list[_native.Message]:
        """What it has taken in and not answered."""
        serving = [self._serving] if self._serving is not None else []
        return [*serving, *self._inbox.waiting]

    def keeps_own_messages_waiting(self, blocking: bool) -> bool:
        return get_ident() == self._thread

    def run(self, construct: Callable[[], bool]) -> Exception | None:
        """Until the clean-up is done, whose error this returns."""
        actor = self._actor
        if construct():
            try:
                self._serve()
            except BaseException as error:
                actor.broke(error)
        actor.overtime.ends()
        actor.wait_for_children()
        if actor.ended.is_set():
            return None
        actor.overtime.begins("cleanup_timeout")
        try:
            return self._clean_up()
        finally:
            actor.overtime.ends()

    def _serve(self) -> None:
        actor, inbox = self._actor, self._inbox
        receive, drain, waiting = actor.mailbox.recv, actor.mailbox.drain, self._inbox.waiting
        while not actor.over:
            if actor.failures:
                self._supervise()
                continue
            if not waiting:
                message = receive()
                if message is None:
                    break
                inbox.put((message,))
                del message
            inbox.put(drain())
            if waiting:
                self._handle(waiting.popleft())
        waiting.clear()

    def _handle(self, message: _native.Message) -> None:
        actor = self._actor
        if message.descriptor == WAKE:
            return
        handler = actor.handler(message)
        if handler is None:
            return
        arguments = actor.arguments(message, handler)
        if arguments is None:
            return
        self._serving = message
        try:
            value = handler.method(*arguments[0], **arguments[1])
        except BaseException as error:
            actor.raised(message, handler, error)
        else:
            actor.answer(message, handler, value)
        self._serving = None

    def _supervise(self) -> None:
        actor = self._actor
        failure = actor.failures.take()
        if failure is None:
            return
        self._enter_hook()
        try:
            handled = self._ask(failure)
        except BaseException as error:
            actor.unhandled(failure, error)
        else:
            if not handled:
                actor.unhandled(failure, None)

    def _ask(self, failure: MeshFailure | UndeliverableMessageEnvelope) -> bool:
        supervise = self._actor.hook_for(failure)
        return supervise is not None and bool(supervise(failure))

    def _clean_up(self) -> Exception | None:
        actor = self._actor
        clean_up = getattr(actor.object, "__cleanup__", None)
        if clean_up is None:
            return None
        self._enter_hook()
        try:
            clean_up(actor.why)
        except Exception as error:
            return error
        except Interrupted:
            return cleanup_took_too_long()
        except BaseException as error:
            return RuntimeError(f"__cleanup__ raised {type(error).__name__}: {error}")
        return None

    def _enter_hook(self) -> None:
        rank = self._actor.rank
        _context.set(Context(self._actor.instance, rank.rank, rank.extent))
