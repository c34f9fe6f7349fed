"""Values to bytes and back: pickle protocol 5, large buffers beside the stream.

Most values take the C pickler. Functions and classes which a worker could not import by name (those of the main
program, of notebooks, lambdas, locals) travel by value; only then is cloudpickle imported, which takes 50 ms.
"""

from __future__ import annotations

import _pickle
import sys
from io import BytesIO
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pickle import PickleBuffer, Pickler
    from typing import Any

    from typing_extensions import Buffer

PROTOCOL = 5

# Buffers of fewer bytes stay in the stream: a part of their own would cost more than the copy.
OUT_OF_BAND_BYTES = 64 * 1024

# Types that no reducer can have a say in.
_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes})

_MAIN_MODULES = ("__main__", "__mp_main__")


def dumps(value: object) -> tuple[bytes, list[PickleBuffer]]:
    """The pickle stream of `value` and its buffers of 64 KiB and more, which alias the value's memory.

    Raises what the pickler raises: mostly `TypeError` or `pickle.PicklingError`.
    """
    if type(value) in _SCALARS:
        return _pickle.dumps(value, PROTOCOL), []
    if not _registered_by_value():
        try:
            return _dump(_ByNamePickler, value)
        except Exception:
            pass  # by value it may work; if not, that error is as good
    from .by_value import ByValuePickler

    return _dump(ByValuePickler, value)


def loads(payload: Buffer, buffers: Iterable[Buffer] = ()) -> Any:
    """The value of `dumps`; arrays are writable where their buffers are. Raises whatever rebuilding it raises."""
    return _pickle.loads(payload, buffers=buffers)


def dumps_arguments(
    name: str, parameters: Sequence[str], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[bytes, list[PickleBuffer]]:
    """The arguments of a call of the endpoint `name`, which has these positional parameters. No arguments: no bytes.

    Raises `UnpicklableArgument`, which names the argument and what in it is to blame.
    """
    if not args and not kwargs:
        return b"", []
    if _all_scalars(args) and _all_scalars(kwargs.values()):
        return _pickle.dumps((args, kwargs), PROTOCOL), []
    try:
        return dumps((args, kwargs))
    except Exception as error:
        from .blame import unpicklable_argument

        raise unpicklable_argument(name, parameters, args, kwargs, error) from error


def loads_arguments(payload: Buffer, buffers: Iterable[Buffer] = ()) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`(args, kwargs)` of `dumps_arguments`."""
    if not payload:
        return (), {}
    args, kwargs = _pickle.loads(payload, buffers=buffers)
    return args, kwargs


class _ByNamePickler(_pickle.Pickler):
    """The C pickler; raises at functions and classes of the main program, which it would pickle by name."""

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, (type, FunctionType)) and obj.__module__ in _MAIN_MODULES:
            raise _TravelsByValue
        return NotImplemented


class _TravelsByValue(Exception):
    pass


def _dump(pickler: type[Pickler], value: object) -> tuple[bytes, list[PickleBuffer]]:
    stream = BytesIO()
    buffers: list[PickleBuffer] = []

    def keep_in_stream(buffer: PickleBuffer) -> bool:
        if memoryview(buffer).nbytes < OUT_OF_BAND_BYTES:
            return True
        buffers.append(buffer)
        return False

    pickler(stream, PROTOCOL, buffer_callback=keep_in_stream).dump(value)
    return stream.getvalue(), buffers


def _all_scalars(values: Iterable[object]) -> bool:
    for value in values:  # noqa: SIM110 (a generator expression would take three times as long)
        if type(value) not in _SCALARS:
            return False
    return True


def _registered_by_value() -> bool:
    """Whether the program has told cloudpickle of modules to pickle by value."""
    # Not there while another thread imports the module: then the program has told it of nothing.
    registry = getattr(sys.modules.get("cloudpickle"), "list_registry_pickle_by_value", None)
    return registry is not None and not registry() <= {"__mp_main__"}
