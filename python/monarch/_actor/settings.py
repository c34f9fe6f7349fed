"""Settings as the runtime reads them. Their table is imported when the first is asked for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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


def texts_for_hosts() -> list[tuple[str, str]]:
    """What hosts get that this program attaches, as variables would have it."""
    from monarch.config import _values

    return _values.texts_for_hosts()


def of_client(texts: Sequence[tuple[str, str]]) -> Callable[[str], Any]:
    """On a host: gives the values of keys, where `texts` is what its client has set."""
    from monarch.config import _values

    return _values.of_client(texts)


def inherit(values: dict[str, Any]) -> None:
    """In a new worker: what its parent has passed on."""
    if values:
        from monarch.config import _values

        _values.inherit(values)


def warn_of_unknown_variables() -> None:
    from monarch.config._variables import warn_of_unknown

    warn_of_unknown()
