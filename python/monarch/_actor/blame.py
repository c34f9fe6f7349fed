"""Finds what in a value can't be pickled, for an error message that names it."""

from __future__ import annotations

import dis
from types import CellType, CodeType, FunctionType, MethodType

from .errors import UnpicklableArgument
from .pickling import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Deeper than people nest; a bound, as each level pickles its children once more.
_MAX_DEPTH = 8


def unpicklable_argument(
    name: str, parameters: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object], error: Exception
) -> UnpicklableArgument:
    """The error for arguments of a call of the endpoint `name` that failed to pickle with `error`."""
    labels = [*parameters[: len(args)], *(f"args[{i}]" for i in range(len(parameters), len(args)))]
    for label, value in [*zip(labels, args, strict=True), *kwargs.items()]:
        own_error = _failure(value)
        if own_error is not None:
            return UnpicklableArgument(f"{name}(): argument {describe_unpicklable(label, value, own_error)}")
    return UnpicklableArgument(f"{name}(): the arguments can't be pickled: {error}")


def describe_unpicklable(label: str, value: object, error: Exception) -> str:
    """Says that `value`, known to the user as `label`, can't be pickled, and what in it is to blame."""
    where, guilty, error = _trace(label, value, error)
    because = "" if guilty is value else f", because of {where} of type {_type_name(guilty)!r}"
    return f"{label!r} of type {_type_name(value)!r} can't be pickled{because}: {error or type(error).__name__}"


def _trace(where: str, value: object, error: Exception) -> tuple[str, object, Exception]:
    """The innermost part of `value` that fails on its own: how to get there, the part, its error."""
    seen = {id(value)}
    for _ in range(_MAX_DEPTH):
        for part_where, part in _parts(where, value):
            part_error = None if id(part) in seen else _failure(part)
            if part_error is not None:
                seen.add(id(part))
                where, value, error = part_where, part, part_error
                break
        else:
            break
    return where, value, error


def _failure(value: object) -> Exception | None:
    try:
        dumps(value)
    except Exception as error:
        return error
    return None


def _parts(where: str, value: object) -> Iterator[tuple[str, object]]:
    """What is pickled with `value`, as far as one can name it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{where}[{key!r}]", item
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield f"{where}[{index}]", item
    elif isinstance(value, MethodType):
        yield f"{where}.__self__", value.__self__
        yield f"{where}.__func__", value.__func__
    elif isinstance(value, FunctionType):
        yield from _function_parts(where, value)
    elif isinstance(value, type):
        yield from _class_parts(where, value)
    elif type(value).__reduce__ is object.__reduce__ and not _has_own_state(type(value)):
        for name, item in getattr(value, "__dict__", {}).items():
            yield f"{where}.{name}", item


def _function_parts(where: str, function: FunctionType) -> Iterator[tuple[str, object]]:
    user = function.__qualname__
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield f"the global {name!r}, which {user!r} uses,", function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"the variable {name!r}, which {user!r} closes over,", _contents(cell)
    yield f"{where}.__defaults__", function.__defaults__
    yield f"{where}.__kwdefaults__", function.__kwdefaults__


def _class_parts(where: str, cls: type) -> Iterator[tuple[str, object]]:
    for base in cls.__bases__:
        yield f"base class {base.__qualname__!r}", base
    for name, member in vars(cls).items():
        # A plain descriptor (property, classmethod, an endpoint) is to blame for the function in it.
        for attribute in ("__func__", "fget", "fset", "_method"):
            member = getattr(member, attribute, member)
        if name not in ("__dict__", "__weakref__"):
            yield f"{cls.__qualname__}.{name}", member


def _contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _global_names(code: CodeType) -> set[str]:
    names = {i.argval for i in dis.get_instructions(code) if i.opname.endswith(("_GLOBAL", "_NAME"))}
    return names.union(*(_global_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)))


def _has_own_state(cls: type) -> bool:
    return getattr(cls, "__getstate__", None) is not getattr(object, "__getstate__", None)


def _type_name(value: object) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
