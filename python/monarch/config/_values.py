"""The values of keys: what the code set, what the parent of this process passed on, variables, defaults."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

from ._kinds import nanoseconds
from ._table import KEYS, Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal, TypeAlias

    Source: TypeAlias = Literal["code", "parent", "environment", "default"]

_lock = threading.Lock()
_set_here: dict[str, Any] = {}  # replaced as a whole, never changed
_inherited: dict[str, Any] = {}
_read: dict[str, tuple[str, Any]] = {}  # what was read of variables: their text, and the value that it means


class Setting:
    """One key as it is now. `source` says where `value` comes from: code, parent, environment or default."""

    __slots__ = ("default", "doc", "has_effect", "name", "source", "value", "variable")

    def __init__(self, key: Key, value: Any, source: Source) -> None:
        self.name = key.name
        self.value = value
        self.source = source
        self.default = key.default
        self.variable = key.variable
        self.doc = key.doc
        self.has_effect = key.has_effect  # False: accepted for programs that set it, but nothing here depends on it

    def __repr__(self) -> str:
        idle = "" if self.has_effect else ", without effect here"
        origin = f"default={self.default!r}, variable={self.variable!r}{idle}"
        return f"<Setting {self.name}={self.value!r} from {self.source}; {origin}: {self.doc}>"


def configure(**values: Any) -> None:
    """Set keys of this process, all or none; for what is made afterwards, and for workers started afterwards.

    Durations are text such as `"1m 30s"`. Raises `ValueError` for an unknown key or a value out of range, `TypeError`
    for a value of another type.
    """
    global _set_here
    checked = {name: _checked(_key(name), value) for name, value in values.items()}
    with _lock:
        _set_here = {**_set_here, **checked}
    _tell_runtime()


class configured:
    """`with configured(…) as settings:` sets keys as `configure` does and puts back at the end what they were.

    `settings` are the values of all keys.
    """

    def __init__(self, **values: Any) -> None:
        self._values = values
        self._before: dict[str, Any] = {}

    def __enter__(self) -> dict[str, Any]:
        self._before = _set_here
        configure(**self._values)
        return get_global_config()

    def __exit__(self, *error: object) -> None:
        global _set_here
        with _lock:
            kept = {name: value for name, value in _set_here.items() if name not in self._values}
            _set_here = {**kept, **{name: self._before[name] for name in self._values if name in self._before}}
        _tell_runtime()


def get_global_config() -> dict[str, Any]:
    """The value of every key."""
    return {name: get(name) for name in KEYS}


def get_runtime_config() -> dict[str, Any]:
    """What the code of this process has set."""
    return dict(_set_here)


def clear_runtime_config() -> None:
    """Forget what the code of this process has set."""
    global _set_here
    with _lock:
        _set_here = {}
    _tell_runtime()


def _tell_runtime() -> None:
    """The runtime keeps the limits of what is sent, for it compares them with every message."""
    context = sys.modules.get("monarch._actor.context")
    if context is not None and context._process is not None:
        context._process.runtime.forget_send_limits()


def explain(key: str | None = None) -> Any:
    """A key's `Setting`; without a key, the list of all. Raises `ValueError` for an unknown key."""
    return [_setting(known) for known in KEYS.values()] if key is None else _setting(_key(key))


def get(name: str) -> Any:
    """The value of a key."""
    return _value(KEYS[name])[0]


def seconds(name: str) -> float:
    """The value of a key that is a duration."""
    return nanoseconds(get(name)) / 1e9


def to_pass_on() -> dict[str, Any]:
    """What a worker inherits: values that code has set, here or further up."""
    values = {**_inherited, **_set_here}
    return {name: value for name, value in values.items() if KEYS[name].inherited}


def texts_for_hosts() -> list[tuple[str, str]]:
    """What attached hosts get: values that code has set of keys that matter to them, as variables would have them."""
    values = {**_inherited, **_set_here}
    return [(name, str(value)) for name, value in values.items() if KEYS[name].for_hosts]


def of_client(texts: Sequence[tuple[str, str]]) -> Callable[[str], Any]:
    """On a host: the value of a key, where `texts` is what its client has set. What has no meaning is ignored."""
    given: dict[str, Any] = {}
    for name, text in texts:
        with suppress(KeyError, TypeError, ValueError):
            given[name] = KEYS[name].kind.read(text)
    return lambda name: given[name] if name in given else get(name)


def inherit(values: dict[str, Any]) -> None:
    """In a new worker: what its parent has passed on."""
    _inherited.update(values)


def _key(name: str) -> Key:
    key = KEYS.get(name)
    if key is None:
        from ._variables import nearest

        hint = nearest(name, KEYS)
        raise ValueError(f"invalid configuration key: {name!r}{f'; did you mean {hint!r}?' if hint else ''}")
    return key


def _checked(key: Key, value: Any) -> Any:
    try:
        return key.kind.check(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"configuration key {key.name!r} cannot be {value!r}: {error}") from None


def _setting(key: Key) -> Setting:
    return Setting(key, *_value(key))


def _value(key: Key) -> tuple[Any, Source]:
    if key.name in _set_here:
        return _set_here[key.name], "code"
    if key.name in _inherited:
        return _inherited[key.name], "parent"
    text = os.environ.get(key.variable)
    if text is None:
        return key.default, "default"
    if key.name not in _read or _read[key.name][0] != text:
        _read[key.name] = text, _read_variable(key, text)
    value = _read[key.name][1]
    return (key.default, "default") if value is _UNREADABLE else (value, "environment")


def _read_variable(key: Key, text: str) -> Any:
    try:
        return key.kind.read(text)
    except (TypeError, ValueError) as error:
        import warnings

        warnings.warn(
            f"{key.variable}={text!r} is ignored: {error}; {key.name} is {key.default!r}", UserWarning, stacklevel=2
        )
        return _UNREADABLE


_UNREADABLE = object()
