"""Exceptions of the actor API, and how an exception travels.

An exception goes with its type name, text and formatted traceback beside its pickle, so that the caller learns what
happened even where the exception itself can't be pickled or rebuilt.
"""

from __future__ import annotations

import _pickle
import os
from types import GetSetDescriptorType, MemberDescriptorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from traceback import TracebackException
    from typing import Any

    from typing_extensions import Buffer

    from monarch._actor.out_of_band import OutOfBand

    from .failure import MeshFailure
    from .shape import Point

_HEADING = "Traceback (most recent call last):\n"
_OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__)) + os.sep


class ActorError(Exception):
    """An endpoint raised. Where that does not mislead it is also an instance of the type that was raised.

    `exception` is the original, `exception_formatted` its traceback where it was raised, `message` says which call.
    Of a call to many: `results` has what succeeded, `failures` the error of each rank that failed.
    """

    def __init__(self, exception: BaseException, message: str, exception_formatted: str = "") -> None:
        self.args = (exception, message)
        self.exception = exception
        self._message = message
        self.exception_formatted = exception_formatted
        self.results: dict[Point, Any] = {}
        self.failures: dict[Point, Exception] = {}
        self.__cause__ = exception

    @property
    def message(self) -> str:
        return self._message  # a property, as a type that is mixed in (`ExceptionGroup`) may have one

    def __str__(self) -> str:
        trace = self.exception_formatted.removeprefix(_HEADING)
        hint = f"\n{self.exception.hint}" if isinstance(self.exception, RemoteException) else ""
        return f"{self.message}\nTraceback of where the remote call failed (most recent call last):\n{trace}{hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"results": self.results, "failures": self.failures}
        return remote_error, (self.message, self.exception, self.exception_formatted), state


class SupervisionError(RuntimeError):
    """A call failed because an actor that had to answer it is gone. `failure` says what happened to it.

    Of a call to many: `results` has what succeeded, `failures` the error of each rank that failed.
    """

    def __init__(self, message: str, *, endpoint: str | None = None, failure: MeshFailure | None = None) -> None:
        super().__init__(message)
        self.endpoint = endpoint
        self.failure = failure
        self.results: dict[Point, Any] = {}
        self.failures: dict[Point, Exception] = {}


class WouldBlockRuntime(RuntimeError):
    """Waiting here would be a deadlock: what is waited for cannot come before the wait has ended."""


class BackPressureError(RuntimeError):
    """Too much waits for actors that wait for this sender themselves: nothing was sent. See `send_hard_limit_bytes`."""


class UnpicklableArgument(TypeError):
    """An argument of an endpoint can't be pickled. Raised at the caller; nothing was sent."""


class RemoteException(Exception):
    """Stands for a remote exception that can't be pickled or rebuilt: what is left is what it said.

    `type_name` is its qualified type, `text` its `str`, `formatted` its traceback, `why_not` why it did not come.
    """

    def __init__(self, type_name: str, text: str, formatted: str, why_not: str = "") -> None:
        super().__init__(type_name, text, formatted, why_not)
        self.type_name = type_name
        self.text = text
        self.formatted = formatted
        self.why_not = why_not

    def __str__(self) -> str:
        return f"{self.type_name}: {self.text}"

    @property
    def hint(self) -> str:
        """What would let the exception itself come."""
        because = f" ({self.why_not})" if self.why_not else ""
        return (
            f"hint: {self.type_name} could not be pickled and rebuilt{because}, so `except {self.type_name}` does not "
            "catch it here; give it a `__reduce__` that returns its class and its constructor's arguments"
        )


def remote_error(message: str, exception: BaseException, formatted: str) -> ActorError:
    """The `ActorError` to raise at the caller for `exception`, which a remote endpoint raised."""
    cls = _error_class(type(exception))
    try:
        error = _new_instance(cls, exception.args)
        _copy_attributes(exception, error)
        ActorError.__init__(error, exception, message, formatted)
        return error
    except BaseException:  # a type that insists on its own constructor, or whose attributes can't be set
        return ActorError(exception, message, formatted)


_error_classes: dict[type[BaseException], type[ActorError]] = {}


def _error_class(cls: type[BaseException]) -> type[ActorError]:
    """A class that is both `ActorError` and `cls`; plain `ActorError` where there is none or it would mislead."""
    known = _error_classes.get(cls)
    if known is None:
        known = _error_classes[cls] = _make_error_class(cls)
    return known


def _make_error_class(cls: type[BaseException]) -> type[ActorError]:
    if issubclass(cls, ActorError):
        return cls
    if _seems_local(cls):
        return ActorError
    try:
        namespace = {"__module__": ActorError.__module__, "__qualname__": f"ActorError[{cls.__qualname__}]"}
        return type("ActorError", (ActorError, cls), namespace)
    except BaseException:  # the layouts do not go together, or the class refuses to be derived from
        return ActorError


def _seems_local(cls: type[BaseException]) -> bool:
    """Whether the type, raised at the caller, would say something about the caller itself."""
    if not issubclass(cls, Exception) or issubclass(cls, (StopIteration, StopAsyncIteration, SupervisionError)):
        return True
    # By name: asyncio and concurrent.futures have their own before Python 3.11, and must not be imported for this.
    return any(base.__name__ in ("TimeoutError", "CancelledError") for base in cls.__mro__)


def _new_instance(cls: type[ActorError], args: tuple[Any, ...]) -> ActorError:
    """An instance whose own type's constructor did not run: nobody knows what that one would want."""
    try:
        return Exception.__new__(cls, *args)
    except TypeError:  # its memory has fields that only its own `__new__` sets up, as those of `OSError`
        return cls.__new__(cls, *args)


def _copy_attributes(source: BaseException, target: BaseException) -> None:
    """Everything a handler may look at: the instance's dictionary, slots, and fields such as `OSError.errno`."""
    for cls in type(source).__mro__:
        if cls in (BaseException, Exception, object):
            continue
        for name, member in vars(cls).items():
            if not isinstance(member, (MemberDescriptorType, GetSetDescriptorType)) or name == "__dict__":
                continue
            try:
                setattr(target, name, getattr(source, name))
            except (AttributeError, TypeError):
                continue  # not set, or read-only
    target.__dict__.update(source.__dict__)


def pack_exception(exception: BaseException, bare: bool = False) -> tuple[bytes, list[OutOfBand]]:
    """The exception as it travels: pickle stream and buffers. Never raises.

    An exception that can't be pickled or, as tried here, rebuilt in any way will arrive as a `RemoteException`. A bare
    one has no formatted traceback, and is to be raised as it is: somebody chose to send it.
    """
    summary = _type_name(type(exception)), text_of(exception), "" if bare else format_exception(exception)
    why_not = ""
    for form in (exception, _WithoutConstructor(exception)):
        try:
            payload, buffers = _dump_rebuildable(form)
            return _pickle.dumps((*summary, payload, ""), 5), buffers
        except BaseException as error:  # also a `SystemExit`: who waits has to be answered, whatever its own code does
            why_not = text_of(error)
    return _pickle.dumps((*summary, b"", why_not), 5), []


def _dump_rebuildable(form: object) -> tuple[bytes, list[OutOfBand]]:
    from .pickling import dumps, loads

    payload, buffers = dumps(form)
    if not isinstance(loads(payload, buffers), BaseException):
        raise TypeError("it is rebuilt as something that is no exception")
    return payload, buffers


class _WithoutConstructor:
    """Pickles as the exception, rebuilt without its constructor: from its arguments and attributes, as most are.

    For types whose constructor wants other arguments than the ones that they pass on to `Exception`.
    """

    def __init__(self, exception: BaseException) -> None:
        self._exception = exception

    def __reduce__(self) -> tuple[Any, ...]:
        exception = self._exception
        if type(exception).__reduce__ is not BaseException.__reduce__:
            raise TypeError("it has a `__reduce__` of its own")
        return _from_parts, (type(exception), exception.args, exception.__dict__)


def _from_parts(cls: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    exception = cls.__new__(cls)
    exception.args = args
    exception.__dict__.update(attributes)
    return exception


def unpack_exception(payload: Buffer, buffers: Iterable[Buffer] = ()) -> tuple[BaseException, str]:
    """The exception and its formatted traceback, of `pack_exception`. A `RemoteException` where it can't be rebuilt."""
    from .pickling import loads

    type_name, text, formatted, pickled, why_not = loads(payload)
    if pickled:
        try:
            exception = loads(pickled, buffers)
            if isinstance(exception, BaseException):
                return exception, formatted
            why_not = "it is rebuilt as something that is no exception"
        except KeyboardInterrupt as error:
            if _on_main_thread():
                raise  # Ctrl-C of a user who does not want to wait for this
            why_not = text_of(error)
        except BaseException as error:  # an import that is missing here, say
            why_not = text_of(error)
    return RemoteException(type_name, text, formatted, why_not), formatted


def _on_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


def format_exception(exception: BaseException) -> str:
    """The traceback with its chain of causes, without the frames of this library. Never raises."""
    import traceback

    try:
        summary = traceback.TracebackException.from_exception(exception)
        _drop_own_frames(summary, set())
        return "".join(summary.format())
    except BaseException as error:
        return (
            f"{_type_name(type(exception))}: {text_of(exception)}\n(its traceback can't be shown: {text_of(error)})\n"
        )


def _drop_own_frames(summary: TracebackException, seen: set[int]) -> None:
    if id(summary) in seen:
        return
    seen.add(id(summary))
    summary.stack[:] = [frame for frame in summary.stack if not frame.filename.startswith(_OWN_DIRECTORY)]
    chained = (summary.__cause__, summary.__context__, *(getattr(summary, "exceptions", None) or ()))
    for part in chained:
        if part is not None:
            _drop_own_frames(part, seen)


def _type_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def text_of(exception: BaseException) -> str:
    """Its `str`, or that it has none. Never raises."""
    try:
        return str(exception)
    except BaseException:
        return "(its text can't be shown)"
