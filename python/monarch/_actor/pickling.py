"""Values to bytes and back: pickle protocol 5, large buffers beside the stream.

Most values take the C pickler. Functions and classes which a worker could not import by name (those of the main
program, of notebooks, lambdas, locals) travel by value; only then is cloudpickle imported, which takes 50 ms.
"""

from __future__ import annotations

import _pickle
import sys
from types import FunctionType

from monarch._actor.out_of_band import OUT_OF_BAND_BYTES, REDUCERS, NeedsWholeStorages, Stream, learn_reducers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from typing_extensions import Buffer

    from monarch._actor.out_of_band import OutOfBand

PROTOCOL = 5

# Types that no reducer can have a say in, nor the stream that large `bytes` leave.
_SCALARS = frozenset({type(None), bool, int, float, complex, str})

_MAIN_MODULES = ("__main__", "__mp_main__")


def dumps(value: object) -> tuple[bytes, list[OutOfBand]]:
    """The pickle stream of `value` and its buffers of 64 KiB and more, which alias the value's memory.

    Raises what the pickler raises: mostly `TypeError` or `pickle.PicklingError`.
    """
    if _is_scalar(value):
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
) -> tuple[bytes, list[OutOfBand]]:
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

    def __init__(self, stream: Stream, whole_storages: bool) -> None:
        super().__init__(stream, PROTOCOL, buffer_callback=stream.keep_in_stream)
        self.whole_storages = whole_storages
        self.storages: dict[int, Any] = {}

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, (type, FunctionType)) and obj.__module__ in _MAIN_MODULES:
            raise _TravelsByValue
        reduce = REDUCERS.get(type(obj))
        return reduce(self, obj) if reduce is not None else NotImplemented


class _TravelsByValue(Exception):
    pass


def _dump(pickler: Any, value: object) -> tuple[bytes, list[OutOfBand]]:
    learn_reducers()
    stream = Stream()
    try:
        pickler(stream, False).dump(value)
    except NeedsWholeStorages:
        stream = Stream()
        pickler(stream, True).dump(value)
    return stream.value(), stream.buffers


def _is_scalar(value: object) -> bool:
    kind = type(value)
    return kind in _SCALARS or kind is bytes and len(value) < OUT_OF_BAND_BYTES  # type: ignore[arg-type]


def _all_scalars(values: Iterable[object]) -> bool:
    for value in values:  # noqa: SIM110 (a generator expression would take three times as long)
        if type(value) not in _SCALARS and not _is_scalar(value):
            return False
    return True


def _registered_by_value() -> bool:
    """Whether the program has told cloudpickle of modules to pickle by value."""
    # Not there while another thread imports the module: then the program has told it of nothing.
    registry = getattr(sys.modules.get("cloudpickle"), "list_registry_pickle_by_value", None)
    return registry is not None and not registry() <= {"__mp_main__"}
