"""What values a key may have: checked where code sets them, read from text where a variable does."""

from __future__ import annotations

import re
from enum import Enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Encoding(Enum):
    """How messages are encoded. Accepted for programs that set it; there is one encoding here."""

    Bincode = "bincode"
    Json = "serde_json"
    Multipart = "serde_multipart"


class Kind:
    """The values of a key, in words as `name`."""

    name: str

    def check(self, value: Any) -> Any:
        """`value` as it is kept. Raises `TypeError` for another type, `ValueError` for a value out of range."""
        raise NotImplementedError

    def read(self, text: str) -> Any:
        """The value that a variable with this text has. Raises `TypeError` or `ValueError`."""
        return self.check(text)


class Text(Kind):
    name = "text"

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError("it has to be a str")
        return value


class Flag(Kind):
    name = "bool"

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError("it has to be a bool")
        return value

    def read(self, text: str) -> bool:
        word = text.strip().lower()
        if word in ("1", "true", "yes", "on"):
            return True
        if word in ("0", "false", "no", "off"):
            return False
        raise ValueError("it has to be 1 or 0, or true or false")


class Whole(Kind):
    """Integers from `least` on."""

    name = "int"

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def check(self, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError("it has to be an int")
        if value < self.least:
            raise ValueError(f"it has to be at least {self.least}")
        return value

    def read(self, text: str) -> int:
        return self.check(int(text))


class Number(Kind):
    name = "float"

    def check(self, value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise TypeError("it has to be a float")
        return float(value)

    def read(self, text: str) -> float:
        return float(text)


class Duration(Kind):
    """Text such as `1m 30s`, kept in its normal form."""

    name = "duration"

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError("it has to be a str such as '500ms', '30s' or '1h 30m'")
        return text_of(nanoseconds(value))


class EncodingName(Kind):
    name = "Encoding"

    def check(self, value: Any) -> Encoding:
        if not isinstance(value, Encoding):
            raise TypeError("it has to be a member of monarch.config.Encoding")
        return value

    def read(self, text: str) -> Encoding:
        for encoding in Encoding:
            if text.lower() in (encoding.name.lower(), encoding.value):
                return encoding
        raise ValueError(f"it has to be one of {', '.join(encoding.name for encoding in Encoding)}")


class OneOf(Kind):
    """One of some words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.name = ", ".join(words[:-1]) + f" or {words[-1]}"

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError("it has to be a str")
        if value not in self.words:
            raise ValueError(f"it has to be {self.name}")
        return value


class Transport(Kind):
    """A word such as `tcp`, an address to bind such as `tcp://host:port`, or a `ChannelTransport`."""

    name = "transport"

    def check(self, value: Any) -> Any:
        if isinstance(value, Enum) and type(value).__name__ == "ChannelTransport":
            return value
        if not isinstance(value, str):
            raise TypeError("it has to be a ChannelTransport or a str such as 'tcp' or 'tcp://host:port'")
        scheme, separator, rest = value.partition("://")
        if scheme not in _SCHEMES or bool(separator) != bool(rest):
            raise ValueError(f"it has to be one of {', '.join(_SCHEMES)}, alone or as in 'tcp://host:port'")
        return value


class Optional(Kind):
    """Values of another kind, or None; `none` in a variable."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.name = f"{kind.name} or None"

    def check(self, value: Any) -> Any:
        return None if value is None else self.kind.check(value)

    def read(self, text: str) -> Any:
        return None if text.strip().lower() in ("", "none") else self.kind.read(text)


_SCHEMES = ("unix", "ipc", "tcp", "tls", "quic", "inproc", "local", "metatls", "metatls-hostname", "metaquic")

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "sec": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "hr": 3600 * 10**9,
    "d": 86400 * 10**9,
    "day": 86400 * 10**9,
    "days": 86400 * 10**9,
}
_SHOWN_UNITS = ("d", "h", "m", "s", "ms", "us", "ns")
_STEP = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)")


def nanoseconds(text: str) -> int:
    """The length of a duration. Raises `TypeError` for what is none."""
    total, end = 0.0, 0
    for step in _STEP.finditer(text):
        if step.start() != end or step[2] not in _UNITS:
            break
        total += float(step[1]) * _UNITS[step[2]]
        end = step.end()
    if end == 0 or text[end:].strip():
        raise TypeError("it has to be a duration such as '500ms', '30s' or '1h 30m'")
    return round(total)


def text_of(length_ns: int) -> str:
    """A duration in its normal form: `1m 30s`."""
    steps = []
    for unit in _SHOWN_UNITS:
        count, length_ns = divmod(length_ns, _UNITS[unit])
        if count:
            steps.append(f"{count}{unit}")
    return " ".join(steps) or "0s"
