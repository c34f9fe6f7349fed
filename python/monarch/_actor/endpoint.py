"""Endpoints: methods that answer messages (`@endpoint`), and their adverbs on a mesh (`mesh.method.call(…)`)."""

from __future__ import annotations

from monarch._actor.answers import answer_at, answer_of_one, answers_of_all
from monarch._actor.context import _context, process, sender
from monarch._actor.descriptors import endpoint_descriptor, stream_descriptor
from monarch._actor.future import Future
from monarch._actor.generics import Generic, ParamSpec, TypeVar
from monarch._actor.pickling import dumps_arguments
from monarch._actor.ports import passing
from monarch._actor.signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from typing import Any, Concatenate, Literal, Protocol, overload

    from monarch import _native
    from monarch._actor.actor_mesh import ActorMeshRoot
    from monarch._actor.call_options import EndpointWithOptions
    from monarch._actor.ports.port import Port
    from monarch._actor.shape import Extent, Region
    from monarch._actor.value_mesh import ValueMesh

P = ParamSpec("P")
R = TypeVar("R")

_GENERATORS = 0x0020 | 0x0200  # inspect.CO_GENERATOR, CO_ASYNC_GENERATOR


class EndpointProperty(Generic[P, R]):
    """A method marked with `@endpoint`, as the attribute of its class.

    On a live actor (`self.method(…)`) it is the plain method: the body runs, nothing is sent.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        takes_port: bool = False,
        concurrent: bool = False,
        limit: int | None = None,
        propagate: Any = None,
        instrument: bool = True,
    ) -> None:
        self._method = method
        self._takes_port = takes_port
        self._concurrent = concurrent
        self._limit = limit  # how many of its calls may overlap, where it is concurrent
        self._propagate = propagate
        self._instrument = instrument
        self._signature: Signature | None = None
        self.__doc__ = method.__doc__
        self.__name__ = method.__name__

    @property
    def signature(self) -> Signature:
        """The parameters after `self` and the response port."""
        if self._signature is None:
            self._signature = Signature.of(self._method, 2 if self._takes_port else 1)
        return self._signature

    @property
    def generates(self) -> bool:
        """Whether the method is a generator, whose values are streamed."""
        code = getattr(self._method, "__code__", None)
        return code is not None and bool(code.co_flags & _GENERATORS)

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type) -> EndpointProperty[P, R]: ...
        @overload
        def __get__(self, instance: object, owner: type) -> Endpoint[P, R]: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        return self if instance is None else self._method.__get__(instance, owner)

    def __repr__(self) -> str:
        kind = "concurrent endpoint" if self._concurrent else "endpoint"
        return f"<{kind} {self._method.__qualname__}: call it on the mesh that `spawn` returns>"

    def __reduce__(self) -> tuple[object, ...]:
        options = (self._takes_port, self._concurrent, self._limit, self._propagate, self._instrument)
        return type(self), (self._method, *options)


if TYPE_CHECKING:

    class Checked(Protocol):
        """What an endpoint knows of its parameters."""

        @property
        def parameters(self) -> tuple[str, ...]: ...
        def check(self, args: tuple[object, ...], kwargs: Mapping[str, object], name: str = ...) -> None: ...

    class EndpointDecorator(Protocol):
        @overload
        def __call__(self, method: Callable[Concatenate[Any, P], Awaitable[R]]) -> EndpointProperty[P, R]: ...
        @overload
        def __call__(self, method: Callable[Concatenate[Any, P], R]) -> EndpointProperty[P, R]: ...

    class PortEndpointDecorator(Protocol):
        def __call__(self, method: Callable[Concatenate[Any, Port[R], P], object]) -> EndpointProperty[P, R]: ...


if TYPE_CHECKING:

    @overload
    def endpoint(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> EndpointProperty[P, R]: ...
    @overload
    def endpoint(method: Callable[Concatenate[Any, P], R]) -> EndpointProperty[P, R]: ...
    @overload
    def endpoint(
        *, propagate: Any = None, explicit_response_port: Literal[False] = False, instrument: bool = True
    ) -> EndpointDecorator: ...
    @overload
    def endpoint(
        *, propagate: Any = None, explicit_response_port: Literal[True], instrument: bool = True
    ) -> PortEndpointDecorator: ...


def endpoint(
    method: Any = None, *, propagate: Any = None, explicit_response_port: bool = False, instrument: bool = True
) -> Any:
    """Let a method, `def` or `async def`, answer messages.

    With `explicit_response_port` the method gets a `Port` first, and answers by sending to it, then or later, there or
    wherever the port was passed on to; its result is ignored. The first answer counts, what it raises included; once
    it has answered, raising fails the actor. Without a caller that waits the port leads nowhere. `propagate` is for
    tensor calls (`rref`). With `instrument`, a call is a span where OpenTelemetry is in use.

    Raises `TypeError` for what is not a function, `ValueError` for a private name and an unknown `propagate`.
    """
    options = {"takes_port": explicit_response_port, "propagate": _checked(propagate), "instrument": instrument}
    return _endpoint(method, options) if method is not None else lambda method: _endpoint(method, options)


def _endpoint(method: Any, options: dict[str, Any]) -> EndpointProperty[..., Any]:
    if isinstance(method, EndpointProperty) or not callable(method) or not hasattr(method, "__get__"):
        raise TypeError(f"@endpoint goes on a plain method, not on {method!r}")
    if method.__name__.startswith("_"):
        raise ValueError(f"an endpoint needs a public name: rename {method.__qualname__!r}")
    return EndpointProperty(method, **options)


def _checked(propagate: Any) -> Any:
    if propagate is None or callable(propagate) or propagate in ("cached", "inspect", "mocked"):
        return propagate
    raise ValueError(f"propagate is {propagate!r}: it is None, 'cached', 'inspect', 'mocked' or a function")


if TYPE_CHECKING:

    @overload
    def concurrent_endpoint(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> EndpointProperty[P, R]: ...
    @overload
    def concurrent_endpoint(
        *,
        propagate: Any = None,
        explicit_response_port: Literal[False] = False,
        instrument: bool = True,
        limit: int | None = None,
    ) -> EndpointDecorator: ...
    @overload
    def concurrent_endpoint(
        *,
        propagate: Any = None,
        explicit_response_port: Literal[True],
        instrument: bool = True,
        limit: int | None = None,
    ) -> PortEndpointDecorator: ...


def concurrent_endpoint(
    method: Any = None,
    *,
    propagate: Any = None,
    explicit_response_port: bool = False,
    instrument: bool = True,
    limit: int | None = None,
) -> Any:
    """Let an `async def` method answer messages while others run: each call is a task of its own.

    Calls begin in the order in which they were sent. At most `limit` of them run at a time, where it is given; the
    others wait. The other options are those of `endpoint`. Raises `ValueError` for a plain `def` and a `limit` below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}: at least 1 call has to run at a time")
    options = {
        "takes_port": explicit_response_port,
        "concurrent": True,
        "limit": limit,
        "propagate": _checked(propagate),
        "instrument": instrument,
    }

    def decorate(method: Any) -> EndpointProperty[..., Any]:
        from monarch._actor.actor import is_async

        if not is_async(method):
            raise ValueError(f"@concurrent_endpoint needs an `async def`: {method!r} is none")
        return _endpoint(method, options)

    return decorate(method) if method is not None else decorate


class Endpoint(Generic[P, R]):
    """An endpoint of the actors of a mesh (or of a view of one). Its adverbs send; they differ in what comes back.

    Sending is eager, in program order, and takes a snapshot of the arguments. Wrong arguments are a `TypeError`, and
    arguments that cannot be pickled an error that names them, both at the call: nothing is sent then.
    """

    __slots__ = ("_descriptor", "_generates", "_name", "_region", "_signature", "_targets", "extent", "label", "root")

    def __init__(
        self,
        root: ActorMeshRoot,
        region: Region,
        targets: _native.Targets,
        name: str,
        signature: Checked,
        descriptor: bytes | None = None,
        generates: bool = False,
    ) -> None:
        self.root = root
        self._region = region
        self._name = name
        self._targets = targets
        self._signature = signature
        self._generates = generates
        self._descriptor = descriptor or endpoint_descriptor(name, region.extent)
        self.extent: Extent = region.extent
        self.label = f"{root.name}.{name}"

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Future[ValueMesh[R]]:
        """Send to all; the result has the value of each rank.

        A death fails it at once. Exceptions of endpoints wait for the other ranks and come as one error, which carries
        `results` and `failures` by point.
        """
        payload, buffers = self._pack(args, kwargs)
        return self._send(payload, buffers, len(self._targets), answers_of_all)

    def call_one(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Send to the only actor of the mesh. Raises `ValueError` when there is not exactly one."""
        self._check_is_one()
        payload, buffers = self._pack(args, kwargs)
        return self._send(payload, buffers, 1, answer_of_one)

    def choose(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Send to one actor, picked at random among the living."""
        position = self._pick()
        payload, buffers = self._pack(args, kwargs, position)
        if self.root.stopped is not None:
            return Future._now(self.root.raise_stopped, self)
        replies = self._targets.call_at(position, sender(), self._descriptor, payload, buffers)
        return Future._of(replies, 1, answer_of_one, self, is_only=True)

    def stream(self, *args: P.args, **kwargs: P.kwargs) -> ValueStream[R]:
        """Send to all; iterate over the answers as they arrive.

        Of a generator endpoint: over the values that it yields, see `GeneratedStream`.
        """
        if self._generates:
            from monarch._actor.ports.streaming import GeneratedStream

            generated: Any = GeneratedStream(self, args, kwargs)
            return generated  # type: ignore[no-any-return]
        payload, buffers = self._pack(args, kwargs)
        count = len(self._targets)
        if self.root.stopped is not None:
            return ValueStream(self.label, count, lambda _: Future._now(self.root.raise_stopped, self))
        replies = self._targets.call(sender(), self._descriptor, payload, buffers, fail_fast=False)
        return ValueStream(self.label, count, lambda index: Future._of(replies, index + 1, answer_at(index), self))

    def broadcast(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Send to all and want no answer. An exception in an endpoint fails its actor.

        Dead actors are skipped, of which a warning of the logger `monarch` tells once for each death.
        """
        payload, buffers = self._pack(args, kwargs)
        if self.root.stopped is not None:
            self.root.raise_stopped(self)
        current = _context.get()
        if current is not None and current.actor_instance.hears_of_undelivered and self._is_confirmable:
            from monarch._actor import undeliverable

            undeliverable.broadcast(current.actor_instance, self, payload, buffers)
        else:
            skipped = self._targets.cast(sender(), self._descriptor, payload, buffers)
            if skipped or self.root.failed or self.root.skipped:
                self.root.tell_of_skipped(self.label, self._region)

    @property
    def _is_confirmable(self) -> bool:
        """Whether it is a plain endpoint of its class."""
        found = getattr(self.root.actor_class, self._name, None)
        return isinstance(found, EndpointProperty) and not (found._takes_port or found.generates)

    def rref(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call as part of a tensor program, whose result is known by its shape: see `propagate`.

        Raises `NotImplementedError` for an endpoint that does not say what its result is like (`propagate`), and
        `TypeError` where no device mesh is active.
        """
        propagate = getattr(getattr(self.root.actor_class, self._name, None), "_propagate", None)
        if propagate in (None, "cached", "mocked"):
            raise NotImplementedError(f"{self.label}.rref(…): propagate is {propagate!r}, not a function or 'inspect'")
        raise TypeError(f"{self.label}.rref(…) needs an active device mesh: there is none")

    def options(
        self, timeout: float | None = None, fail_fast: bool = False, retry: int = 0
    ) -> EndpointWithOptions[P, R]:
        """`mesh.method.options(…).call(…)`, `.call_one(…)`, `.choose(…)`: settings of one call.

        `timeout`: seconds until the call is cancelled, here and remotely, and its future raises a `TimeoutError` that
        names the ranks that have not answered. `fail_fast`: `call` raises with the first exception of an endpoint.
        `retry`: how often a call that failed with a `SupervisionError` is sent again, to all of its actors, once they
        have been made again; what it does there may happen twice. Raises `ValueError` for values that make no sense.
        """
        from monarch._actor.call_options import EndpointWithOptions

        return EndpointWithOptions(self, timeout, fail_fast, retry)

    def _check_is_one(self) -> None:
        if len(self._targets) != 1:
            raise ValueError(
                f"call_one requires exactly 1 actor, but mesh has {len(self._targets)}: select one with "
                f"`.slice(…)`, or use call, choose or stream"
            )

    def _pack(self, args: tuple[Any, ...], kwargs: dict[str, Any], position: int | None = None) -> tuple[bytes, Any]:
        """Check and pickle arguments, for one member or for all."""
        signature = self._signature
        signature.check(args, kwargs)
        if passing.pickled:
            passing.forget()
        packed = dumps_arguments(self.label, signature.parameters, args, kwargs)
        if passing.pickled:
            ranks = self._region.ranks()
            passing.carry(self.root, ranks if position is None else (ranks[position],))
        return packed

    def _send(
        self, payload: bytes, buffers: Any, count: int, decode: Callable[[Endpoint[P, R], _native.Replies], Any]
    ) -> Future[Any]:
        if self.root.stopped is not None:
            return Future._now(self.root.raise_stopped, self)
        me = sender()
        replies = self._targets.call(me, self._descriptor, payload, buffers)
        return Future._of(replies, count, decode, self, to_own_mesh=me == self.root.actor, is_only=True)

    def _call_generators(self, payload: bytes, buffers: Any) -> _native.Replies:
        if self.root.stopped is not None:
            self.root.raise_stopped(self)
        descriptor = stream_descriptor(self._name, self.extent)
        return self._targets.call(sender(), descriptor, payload, buffers, fail_fast=False)

    def is_answered_here(self, replies: _native.Replies) -> bool:
        """Whether an answer is missing that only the actor of this mesh in this process can give."""
        runtime = process().runtime
        if runtime.mesh != self.root.procs._root.mesh or replies.expected != len(self._targets):
            return False
        ranks = self._region.ranks()
        return runtime.rank in ranks and ranks.index(runtime.rank) in replies.pending()

    def _pick(self, avoid: AbstractSet[int] = frozenset()) -> int:
        """A position at random, among those not to avoid whose process is not known to be dead, where there are any."""
        count = len(self._targets)
        dead = avoid | {position for position, _ in self._targets.deaths()}
        if not dead or len(dead) == count:
            return _random_below(count)
        living = [position for position in range(count) if position not in dead]
        return living[_random_below(len(living))]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        # In the class body `self.method(…)` is the plain method, so type checkers have to see a call here.
        raise TypeError(
            f"{self.label} is an endpoint of remote actors: use `.call(…)`, `.call_one(…)`, `.choose(…)`, "
            "`.stream(…)` or `.broadcast(…)`"
        )

    def __repr__(self) -> str:
        return f"<endpoint {self.label} of {self.extent}{self.root.describe_state(self._region)}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError(f"the endpoint {self.label} cannot be pickled; send the mesh instead")


class ValueStream(Generic[R]):
    """The answers of a mesh in the order in which they arrive.

    `for` gives futures, one for each rank (the k-th is done once k ranks have answered); `async for` gives values.
    """

    __slots__ = ("_count", "_future_at", "_label", "_seen")

    def __init__(self, label: str, count: int, future_at: Callable[[int], Future[R]]) -> None:
        self._label = label
        self._count = count
        self._future_at = future_at  # of the answer that arrives as number so-and-so
        self._seen = 0

    def __iter__(self) -> Iterator[Future[R]]:
        return self

    def __next__(self) -> Future[R]:
        if self._seen == self._count:
            raise StopIteration
        self._seen += 1
        return self._future_at(self._seen - 1)

    def __aiter__(self) -> AsyncIterator[R]:
        return self

    async def __anext__(self) -> R:
        try:
            future = next(self)
        except StopIteration:
            raise StopAsyncIteration from None
        return await future

    def __repr__(self) -> str:
        return f"<ValueStream of {self._label}: {self._seen} of {self._count} answers taken>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError(f"the stream of {self._label} cannot be pickled")


def _random_below(count: int) -> int:
    # The C generator alone: `random` takes longer to import than this package.
    from _random import Random

    global _random
    if _random is None:
        _random = Random()
    return int(_random.random() * count)


_random: Any = None
