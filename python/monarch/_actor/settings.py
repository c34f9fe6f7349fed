"""Settings as the runtime reads them. Their table is imported when the first is asked for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def value(key: str) -> Any:
    from monarch.config._values import get

    return get(key)


def seconds(key: str) -> float:
    """The value of a key that is a duration."""
    from monarch.config import _values

    return _values.seconds(key)


def to_pass_on() -> dict[str, Any]:
    """What new workers inherit."""
    from monarch.config import _values

    return _values.to_pass_on()


def inherit(values: dict[str, Any]) -> None:
    """In a new worker: what its parent has passed on."""
    if values:
        from monarch.config import _values

        _values.inherit(values)


def warn_of_unknown_variables() -> None:
    from monarch.config._variables import warn_of_unknown

    warn_of_unknown()
