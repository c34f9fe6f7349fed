"""Streams of generator endpoints: each value travels as soon as it is yielded."""

from __future__ import annotations

from contextlib import suppress

from monarch import _native
from monarch._actor.generics import Generic, TypeVar
from monarch._actor.pickling import dumps_arguments
from monarch._actor.ports.channel import Channel
from monarch._actor.ports.sending import Forwarding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Any

    from monarch._actor.endpoint import Endpoint
    from monarch._actor.ports.port import Port

R = TypeVar("R")


class GeneratedStream(Generic[R]):
    """The values that the generators of all ranks yield, in the order of arrival; each rank's keep their order.

    `for` and `async for` give values. What a generator raises is raised in its place; the other ranks go on. Dropping
    the stream cancels generators that are async and runs sync ones to their end.
    """

    def __init__(self, endpoint: Endpoint[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        signature = endpoint._signature
        signature.check(args, kwargs)
        self._label = endpoint.label
        port, self._receiver = Channel[R].open()
        payload, buffers = dumps_arguments(endpoint.label, ("port", *signature.parameters), (port, *args), kwargs)
        self._replies = endpoint._call_generators(payload, buffers)
        _Ends(endpoint, self._replies, port).go_on()

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        try:
            return self._receiver.recv().get()
        except AllEnded:
            raise StopIteration from None

    def __aiter__(self) -> AsyncIterator[R]:
        return self

    async def __anext__(self) -> R:
        try:
            return await self._receiver.recv()
        except AllEnded:
            raise StopAsyncIteration from None

    def __repr__(self) -> str:
        return f"<GeneratedStream of {self._label}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError(f"the stream of {self._label} cannot be pickled")

    def __del__(self) -> None:
        with suppress(RuntimeError, AttributeError):  # a fork of the process, or a stream that was never begun
            self._replies.cancel()


class AllEnded(Exception):
    """All generators have ended."""


class _Ends(Forwarding):
    """Of the generators' answers only errors go to the port, and after the last one its end."""

    def forward(self, message: _native.Message) -> None:
        if message.status != _native.STATUS_VALUE:
            super().forward(message)

    def finish(self) -> None:
        port: Any = self._port
        port.end(AllEnded())


def sending_values(generator: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    """A function that runs a generator endpoint and sends what it yields to the port before its arguments."""

    def run(port: Port[Any], *args: Any, **kwargs: Any) -> None:
        for value in generator(*args, **kwargs):
            port.send(value)

    async def run_async(port: Port[Any], *args: Any, **kwargs: Any) -> None:
        async for value in generator(*args, **kwargs):
            port.send(value)

    return run_async if is_async else run
