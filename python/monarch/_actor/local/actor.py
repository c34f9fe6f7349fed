"""`LocalActor`: one actor of this process: how it is made, what it answers, and how it ends."""

from __future__ import annotations

import threading
import time

from monarch import _native
from monarch._actor import requests, settings
from monarch._actor.actor import is_async, is_async_kind
from monarch._actor.causes import Cause
from monarch._actor.context import Context, Instance, _context
from monarch._actor.descriptors import (
    CONFIRM,
    LOOK_UP,
    STOP_AFTER_QUEUE,
    STREAM,
    UNWATCH,
    WATCH,
    parse_endpoint_descriptor,
)
from monarch._actor.endpoint import EndpointProperty
from monarch._actor.errors import pack_exception, text_of
from monarch._actor.failure import MeshFailure
from monarch._actor.local.overtime import Interrupted, Overtime, interrupt
from monarch._actor.local.owner import Owner
from monarch._actor.pickling import dumps, loads_arguments
from monarch._actor.shape import Point
from monarch._actor.telemetry import instrumented

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    from weakref import WeakSet

    from monarch._actor.context import CreatorInstance
    from monarch._actor.local.process import Process
    from monarch._actor.mesh_root import MeshRoot
    from monarch._actor.ports.port import ResponsePort
    from monarch._actor.proc_mesh import ProcMesh
    from monarch._actor.shape import Extent
    from monarch._actor.undeliverable import UndeliverableMessageEnvelope

NOTHING, _ = dumps(None)


class Handler:
    """An endpoint of an actor as a view addressed it."""

    __slots__ = ("concurrent", "confirms", "extent", "is_async", "label", "limit", "method", "takes_port")

    def __init__(
        self,
        method: Callable[..., Any],
        label: str,
        extent: Extent,
        is_async: bool,
        concurrent: bool,
        limit: int | None,
        takes_port: bool,
    ) -> None:
        self.method = method
        self.label = label
        self.extent = extent
        self.is_async = is_async
        self.concurrent = concurrent
        self.limit = limit  # how many calls may overlap
        self.confirms = False  # only the taking of a message is answered
        self.takes_port = takes_port  # the method answers by a response port, not by its result


class LocalActor(Owner):
    """An actor with a thread of its own. What it does between messages is in its loop: see `SyncLoop`, `AsyncLoop`."""

    def __init__(
        self,
        process: Process,
        actor: bytes,
        name: str,
        position: int,
        procs: ProcMesh,
        creator: CreatorInstance,
        owner: tuple[bytes, int, bytes],
        life: int,
        request: _native.Message,
    ) -> None:
        super().__init__(process, actor)
        self.name = name
        self.owner = owner  # process mesh, rank and id of the actor that spawned this one
        self.life = life  # which of the actors in this place, as its owner counts
        self.rank = Point(position, procs._region.extent)
        self.instance = Instance(self, name, None, self.rank, procs, creator)
        self.mailbox = process.runtime.mailbox(actor)
        self.object: Any = None
        self.over = False  # no further message is served
        self.overtime = Overtime(self)
        self.cause: Cause | None = None  # why it failed
        self.stop_reason: str | None = None
        self.ended = threading.Event()
        self.told_of_end = threading.Event()  # whoever waits for its end has been answered
        self.thread = threading.Thread(target=self._run, name=f"{name}[{self.rank.rank}]", daemon=True)
        self._requests = [request]  # what it was made for, until it is
        self._handlers: dict[bytes, Handler] = {}
        self._watches: dict[bytes, _native.Message] = {}  # whoever sent them is answered by the end of this actor
        self._ports: WeakSet[ResponsePort[Any]] | None = None  # what its calls may still be answered by
        self._stop_requests: list[_native.Message] = []
        self._successors: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._loop: Any = None

    # --- making -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.thread.start()

    def refuse(self, error: BaseException) -> None:
        """Be dead from the start: the process is not fit for actors."""
        self._answer_makers(_native.STATUS_ERROR, *pack_exception(error))
        cause = Cause.raised("init", "was not made: the `bootstrap` of its process", error)
        self.mailbox.close("actor", cause.reason, cause.detail())

    def _run(self) -> None:
        cleanup_error: Exception | None = None
        try:
            cleanup_error = self._live()
        except BaseException as error:  # such as that the system has no descriptors left for an event loop
            self.broke(error)
        self.end(cleanup_error)

    def _live(self) -> Exception | None:
        """From the constructor to the clean-up, whose error this returns."""
        request = self._requests[0]
        _context.set(Context(self.instance, self.rank.rank, self.rank.extent, may_block=True))
        try:
            (actor_class, *args), kwargs = loads_arguments(request.payload, request.take_buffers())
        except BaseException as error:
            self._fail_to_start("was not made: unpickling its class and arguments", error)
            return None
        self.actor_class = actor_class
        self.instance.hears_of_undelivered = hasattr(actor_class, "_handle_undeliverable_message")
        self.instance.class_name = f"{actor_class.__module__}.{actor_class.__qualname__}"
        if is_async_kind(actor_class):
            from monarch._actor.local.async_loop import AsyncLoop

            loop: Any = AsyncLoop(self)
        else:
            from monarch._actor.local.sync_loop import SyncLoop

            loop = SyncLoop(self)
        self._loop = loop
        return loop.run(lambda: self._construct(actor_class, args, kwargs))  # type: ignore[no-any-return]

    def _construct(self, actor_class: type, args: list[Any], kwargs: dict[str, Any]) -> bool:
        try:
            self.object = actor_class(*args, **kwargs)
        except BaseException as error:
            self._fail_to_start("failed: its constructor", error)
            return False
        self._answer_makers(_native.STATUS_VALUE, NOTHING)
        return True

    def _fail_to_start(self, what: str, error: BaseException) -> None:
        self.fail(Cause.raised("init", what, error))
        self._answer_makers(_native.STATUS_ERROR, *pack_exception(error))

    def _answer_makers(self, status: int, payload: bytes, buffers: Any = None) -> None:
        """Tell who wanted this actor made how that went."""
        with self._lock:
            requests_, self._requests = self._requests, []
        for request in requests_:
            request.reply(status, payload, buffers)

    def broke(self, error: BaseException) -> None:
        """What runs this actor raised, outside of what it serves."""
        if self._requests:
            self._fail_to_start("was not made: its loop", error)
        elif not isinstance(error, Interrupted):  # that one comes after this was told to end
            self.fail(Cause.raised("exception", "failed: its loop", error))

    # --- answering ----------------------------------------------------------------------------------------------------

    def handler(self, message: _native.Message) -> Handler | None:
        """Who serves a message; None where the message was for the runtime itself, or for an endpoint unknown here."""
        found = self._handlers.get(message.descriptor)
        if found is None:
            found = self._find_handler(message)
        return found

    def _find_handler(self, message: _native.Message) -> Handler | None:
        if message.descriptor == LOOK_UP:
            message.reply(_native.STATUS_VALUE, NOTHING)
            return None
        if message.descriptor == STOP_AFTER_QUEUE:
            self.stop(bytes(message.payload).decode(), None)
            return None
        if message.descriptor == WATCH:
            self._watches[message.payload] = message
            return None
        if message.descriptor == UNWATCH:
            watch = self._watches.pop(message.payload, None)
            if watch is not None:
                watch.reply(_native.STATUS_VALUE, NOTHING)
            return None
        try:
            handler = self._make_handler(message.descriptor)
        except BaseException as error:
            message.reply(_native.STATUS_ERROR, *pack_exception(error))
            return None
        self._handlers[message.descriptor] = handler
        return handler

    def _make_handler(self, descriptor: bytes) -> Handler:
        name, extent, how = parse_endpoint_descriptor(descriptor)
        where = type(self.object).__qualname__
        found: Any = getattr(type(self.object), name, None)
        is_endpoint = isinstance(found, EndpointProperty)
        as_plain = isinstance(how, bool)
        if is_endpoint == as_plain or not (is_endpoint or callable(found)):
            raise AttributeError(f"{where} has no {'plain method' if as_plain else 'endpoint'} {name!r} here")
        method = getattr(self.object, name)
        if is_async(method) and not self._loop.is_async:
            raise TypeError(f"{where}.{name} is async, and its actor has no event loop: mark it with @endpoint")
        by_port = found._takes_port if is_endpoint else bool(how)
        runs_async = is_async(method)
        if how == STREAM:
            from monarch._actor.ports.streaming import sending_values

            method = sending_values(method, runs_async)
        elif is_endpoint and found.generates:
            raise TypeError(f"{where}.{name} is a generator: its values come by `.stream(…)` only")
        label = f"{self.name}.{name}"
        if not is_endpoint:
            return Handler(method, label, extent, runs_async, False, None, by_port)
        if found._instrument:
            method = instrumented(method, label)
        handler = Handler(method, label, extent, runs_async, found._concurrent, found._limit, by_port)
        handler.confirms = how == CONFIRM
        return handler

    def arguments(self, message: _native.Message, handler: Handler) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Enter the message's context and unpickle its arguments; None where that failed, which the caller is told."""
        _context.set(Context(self.instance, message.rank, handler.extent))
        if handler.confirms:
            message.reply(_native.STATUS_VALUE, NOTHING)
        try:
            arguments = loads_arguments(message.payload, message.take_buffers())
            return self._with_port(message, handler, arguments) if handler.takes_port else arguments
        except BaseException as error:  # none of them is the actor's own
            self.answer_error(message, handler, error)
            return None

    def _with_port(
        self, message: _native.Message, handler: Handler, arguments: tuple[tuple[Any, ...], dict[str, Any]]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a method that answers by port, which is the first of them."""
        from weakref import WeakSet

        from monarch._actor.ports.port import ResponsePort

        args, kwargs = arguments
        port: ResponsePort[Any] = ResponsePort(message, handler.label)
        if self._ports is None:
            self._ports = WeakSet()
        self._ports.add(port)
        return (port, *args), kwargs

    def _raised_to_port(self, message: _native.Message, error: Exception) -> bool:
        """Give the error to who waits for an answer by port; False where there is an answer already."""
        port = next((port for port in self._ports or () if port.answers(message)), None)
        return port is not None and port.raised(error)

    def answer(self, message: _native.Message, handler: Handler, value: Any) -> None:
        """Send the result of an endpoint to who waits for it."""
        if not message.expects_reply or handler.confirms:
            return
        if handler.takes_port:
            return  # the port answers
        if value is None:
            message.reply(_native.STATUS_VALUE, NOTHING)
            return
        try:
            payload, buffers = dumps(value)
        except BaseException as error:
            unpicklable = TypeError(f"the result of {handler.label} cannot be pickled: {text_of(error)}")
            unpicklable.__cause__ = error
            message.reply(_native.STATUS_ERROR, *pack_exception(unpicklable))
        else:
            message.reply(_native.STATUS_VALUE, payload, buffers)

    def answer_error(self, message: _native.Message, handler: Handler, error: BaseException) -> None:
        """Send an error that leaves the actor alive to who waits; print it where nobody does."""
        if message.expects_reply and not handler.confirms:
            message.reply(_native.STATUS_ERROR, *pack_exception(error))
        else:
            import sys
            import traceback

            print(f"monarch: {handler.label} failed, and nobody waits for its result", file=sys.stderr)
            traceback.print_exception(type(error), error, error.__traceback__)

    def raised(self, message: _native.Message, handler: Handler, error: BaseException) -> None:
        """An endpoint raised: an `Exception` goes to who waits; anything else, or nobody waiting, fails the actor."""
        awaited = message.expects_reply and not (handler.takes_port or handler.confirms)
        if isinstance(error, Exception) and awaited:
            message.reply(_native.STATUS_ERROR, *pack_exception(error))
        elif isinstance(error, Exception) and self._raised_to_port(message, error):
            return
        elif type(error).__name__ == "CancelledError":
            self.answer_error(message, handler, error)
        else:
            if isinstance(error, Interrupted):
                self.over = True
            else:
                self.fail(Cause.raised("exception", f"failed: endpoint {handler.label}", error))
            # Now, not when the message is let go: the exception's traceback may hold on to it.
            message.reply(_native.STATUS_DEAD, b"")

    # --- ownership ----------------------------------------------------------------------------------------------------

    def told_of_failure(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.wake()

    def hook_for(self, told: MeshFailure | UndeliverableMessageEnvelope) -> Callable[[Any], Any] | None:
        """The method of the actor that is to handle this, if it has one."""
        name = "__supervise__" if isinstance(told, MeshFailure) else "_handle_undeliverable_message"
        return getattr(self.object, name, None)

    def unhandled(self, failure: MeshFailure | UndeliverableMessageEnvelope, error: BaseException | None) -> None:
        """A child's failure, or a message that came back, was not handled: this actor fails too."""
        if not isinstance(failure, MeshFailure):
            self._undelivered(failure, error)
        elif error is None:
            cause = Cause("exception", f"did not handle a supervision event from its child: {failure.report()}")
        else:
            what = f"failed: its __supervise__, told of [{failure.report()}],"
            cause = Cause.raised("exception", what, error)
        self.fail(cause)

    def _undelivered(self, envelope: UndeliverableMessageEnvelope, error: BaseException | None) -> None:
        if error is None:
            self.fail(Cause("undeliverable", f"did not handle an {envelope.report()}"))
        else:
            what = f"failed: its _handle_undeliverable_message, told of [{envelope.report()}],"
            self.fail(Cause.raised("undeliverable", what, error))

    def keeps_own_messages_waiting(self, blocking: bool) -> bool:
        return self._loop is not None and bool(self._loop.keeps_own_messages_waiting(blocking))

    # --- ending -------------------------------------------------------------------------------------------------------

    def fail(self, cause: Cause) -> None:
        """Be dead: callers get the cause, the owner is told."""
        with self._lock:
            if self.cause is not None or self.ended.is_set():
                return
            self.cause = cause = cause.with_fallen(mesh.name for mesh in self.meshes())
            self.over = True
        detail = cause.detail()
        self.mailbox.close("actor", cause.reason, detail)
        mesh, rank, _ = self.owner
        runtime = self.process.runtime
        target = _native.Targets(runtime, mesh, [rank], _native.PROCESS_ACTOR)
        target.cast(self.actor, requests.child_failed(self.actor, runtime.rank, self.life), detail)
        self.told_of_failure()

    def abort(self, reason: str) -> None:
        self.fail(Cause("abort", f"was aborted: {reason}"))

    def stop_after_queue(self, reason: str) -> None:
        runtime = self.process.runtime
        me = _native.Targets(runtime, runtime.mesh, [runtime.rank], self.actor)
        me.cast(self.actor, STOP_AFTER_QUEUE, reason.encode())

    def stop(self, reason: str, request: _native.Message | None) -> None:
        """End in order. `request` is answered when this has ended. May be called from any thread, more than once."""
        with self._lock:
            ended = self.ended.is_set()
            if request is not None and not ended:
                self._stop_requests.append(request)
            first = not self.over
            self.over = True
            if self.stop_reason is None:
                self.stop_reason = reason
        if ended:
            if request is not None:
                request.reply(_native.STATUS_VALUE, NOTHING)
            return
        if first:
            self.overtime.begins()  # first: it may end before the next line
            self.mailbox.close("stopped", reason)
            self.told_of_failure()

    def goes_on_as(self, life: int, request: _native.Message, also_if_made: bool) -> bool:
        """Be the actor that `request` wants made, in this life: while this is being made, or later if that will do."""
        with self._lock:
            being_made = bool(self._requests)
            if self.over or not (being_made or also_if_made):
                return False
            self.life = life
            if being_made:
                self._requests.append(request)
        if not being_made:
            request.reply(_native.STATUS_VALUE, NOTHING)
        return True

    def be_succeeded(self, make: Callable[[], None]) -> None:
        """End, and then call `make` for the actor that takes this one's place; at once where this one has ended.

        Of several, each is called, in order: the later ones find the actor of the one before in this place.
        """
        with self._lock:
            ended = self.ended.is_set()
            if not ended:
                self._successors.append(make)
        if ended:
            make()
        else:
            self.stop("another actor takes its place", None)

    def interrupt(self) -> None:
        """Raise `Interrupted` in the actor's thread, at its next bytecode."""
        if not self.ended.is_set():
            interrupt(self.thread)

    def abandon(self) -> None:
        """Be over although the actor's thread goes on with something: nobody waits for it any more."""
        self.stop_children(f"its owner {self.name} was abandoned")
        for message in self._loop.unanswered() if self._loop is not None else ():
            message.reply(_native.STATUS_DEAD, b"")
        self.end(None)

    @property
    def why(self) -> Exception | None:
        """What `__cleanup__` is given: None for an orderly stop."""
        if self.cause is None:
            return None
        if isinstance(self.cause.exception, Exception):
            return self.cause.exception
        return RuntimeError(f"actor {self.name} {self.cause.reason}")

    def wait_for_children(self) -> None:
        """Stop what this actor owns and wait for it, in bounded time."""
        deadline = time.monotonic() + settings.seconds("stop_actor_timeout")
        for root, stop in self.stop_children(f"its owner {self.name} ended"):
            self.child_stopped(root, stop.exception(max(0.0, deadline - time.monotonic())))

    def child_stopped(self, root: MeshRoot, error: BaseException | None) -> None:
        """Something that this actor owned has been stopped as it ends; print the exception of a `__cleanup__` there.

        It is no failure, and nobody else hears of it. A `TimeoutError` is only that of the wait for it. Processes that
        end print what is raised in them themselves.
        """
        from monarch._actor.proc_mesh import ProcMeshRoot

        if error is None or isinstance(error, TimeoutError) or isinstance(root, ProcMeshRoot):
            return
        import sys

        print(f"monarch: a __cleanup__ failed as its owner {self.name} ended: {error}", file=sys.stderr)

    def end(self, cleanup_error: Exception | None) -> None:
        """The last thing of an actor's life."""
        self.overtime.ends()
        with self._lock:
            if self.ended.is_set():
                return  # it was abandoned
            self.process.ownership.owner_ended(self.actor)
            self.process.leaving.add(self)
            self.process.actors.pop(self.actor, None)
            self.ended.set()
            requests_, self._stop_requests = self._stop_requests, []
            successors, self._successors = self._successors, []
        try:
            self._tell_of_end(cleanup_error, requests_, successors)
        finally:
            self.told_of_end.set()
            self.process.leaving.discard(self)

    def _tell_of_end(
        self, cleanup_error: Exception | None, requests_: list[_native.Message], successors: list[Callable[[], None]]
    ) -> None:
        self._watches.clear()
        for port in list(self._ports or ()):
            port.abandon()
        for make in successors:
            make()
        for request in requests_:
            if cleanup_error is not None:
                request.reply(_native.STATUS_ERROR, *pack_exception(cleanup_error))
            else:
                request.reply(_native.STATUS_VALUE, NOTHING)
        if cleanup_error is not None and not requests_:
            import sys
            import traceback

            print(f"monarch: __cleanup__ of actor {self.name} failed", file=sys.stderr)
            traceback.print_exception(type(cleanup_error), cleanup_error, cleanup_error.__traceback__)
            self.process.cleanup_failed(cleanup_error)
