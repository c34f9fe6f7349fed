"""From the answers of a mesh to the value of a future, or to the exception that it raises."""

from __future__ import annotations

from monarch._actor.pickling import loads
from monarch._native import STATUS_DEAD, STATUS_ERROR, STATUS_VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch._actor.endpoint import Endpoint
    from monarch._actor.future import Awaited
    from monarch._actor.value_mesh import ValueMesh
    from monarch._native import Message, Replies


def answer_of_one(endpoint: Endpoint[..., Any], replies: Replies) -> Any:
    """The result of a call to one actor."""
    return _value(endpoint, replies.message(0))


def answer_at(index: int) -> Callable[[Endpoint[..., Any], Replies], Any]:
    """Decoder of the answer that arrives as number `index`."""

    def decode(endpoint: Endpoint[..., Any], replies: Replies) -> Any:
        return _value(endpoint, replies.message(index))

    return decode


def answers_of_all(endpoint: Endpoint[..., Any], replies: Replies) -> ValueMesh[Any]:
    """The results of a call to many, by rank; they are unpickled when looked at. Of errors, that of the lowest rank."""
    return _answers(endpoint, replies, lambda messages: sorted(messages, key=lambda message: message.rank))


def answers_until_an_error(endpoint: Endpoint[..., Any], replies: Replies) -> ValueMesh[Any]:
    """The same, but of errors that which arrived first: the others may be its consequences."""
    return _answers(endpoint, replies, lambda messages: messages)


def _answers(
    endpoint: Endpoint[..., Any], replies: Replies, ranked: Callable[[list[Message]], list[Message]]
) -> ValueMesh[Any]:
    from monarch._actor.value_mesh import ValueMesh

    messages = [replies.message(index) for index in range(replies.arrived)]
    if any(message.status != STATUS_VALUE for message in messages):
        raise _error_of_many(endpoint, ranked(messages))
    thunks: list[Callable[[], Any]] = [_nothing] * len(messages)
    for message in messages:
        thunks[message.rank] = _thunk(message)
    return ValueMesh._lazy(endpoint.extent, thunks)


def answered_by_all(subject: Awaited, replies: Replies) -> None:
    """Raise the error of the first that has one."""
    for index in range(replies.arrived):
        message = replies.message(index)
        if message.status != STATUS_VALUE:
            raise _error(subject, message)


def _value(endpoint: Endpoint[..., Any], message: Message) -> Any:
    if message.status == STATUS_VALUE:
        return loads(message.payload, message.take_buffers())
    raise _error(endpoint, message)


def _thunk(message: Message) -> Callable[[], Any]:
    return lambda: loads(message.payload, message.take_buffers())


def _nothing() -> None:
    return None


def _error(subject: Awaited, message: Message) -> Exception:
    if message.status == STATUS_ERROR:
        from monarch._actor.errors import remote_error, unpack_exception

        exception, formatted = unpack_exception(message.payload, message.copy_buffers())
        if not formatted and isinstance(exception, Exception):
            return exception
        return remote_error(f"Actor call {subject.label} failed.", exception, formatted)
    if message.status == STATUS_DEAD:
        from monarch._actor.supervision import error_of_death

        return error_of_death(subject, message)
    return RuntimeError(f"{subject.label}: answer of unknown status {message.status}")


def _error_of_many(endpoint: Endpoint[..., Any], messages: list[Message]) -> Exception:
    """One error for all: the first death, or else the first exception. It carries what every rank answered."""
    from monarch._actor.shape import Point

    results: dict[Point, Any] = {}
    failures: dict[Point, Exception] = {}
    for message in sorted(messages, key=lambda message: message.rank):
        point = Point(message.rank, endpoint.extent)
        try:
            results[point] = _value(endpoint, message)
        except Exception as error:
            failures[point] = error
    first = min(messages, key=lambda message: _SEVERITY.get(message.status, 0))
    # A fresh object, so that the error is not among its own failures.
    chosen: Any = _error(endpoint, first)
    chosen.results, chosen.failures = results, failures
    return chosen  # type: ignore[no-any-return]


# A death explains more than an exception does.
_SEVERITY = {STATUS_DEAD: 0, STATUS_ERROR: 1, STATUS_VALUE: 2}
