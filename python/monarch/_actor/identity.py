"""Names of actors and processes that no other actor or process ever has: `Uid`, `ProcId`, `ActorAddr`.

Printable and opaque; what is printed can be read back. A label is for people: it takes no part in equality.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

from monarch import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BYTES = 16
# Base 64 with the letters that are safe in file names and URLs, without its padding.
_LETTERS = bytes.maketrans(b"+/", b"-_")
_BACK = str.maketrans("-_", "+/")
_DIGITS = 22


class Uid:
    """A unique identity, of an *instance* (128 random bits), or of a *singleton* that its label alone names."""

    __slots__ = ("_label", "_value")

    def __init__(self, label: str | None, value: bytes | None) -> None:
        """`value` is None for a singleton, which needs a label."""
        if value is None and not label:
            raise ValueError("a singleton is named by its label: it needs one")
        self._label = label or None
        self._value = value

    @staticmethod
    def instance(label: str | None = None) -> Uid:
        """A new identity."""
        return Uid(label, _native.new_id())

    @staticmethod
    def anonymous() -> Uid:
        """A new identity without a label."""
        return Uid(None, _native.new_id())

    @staticmethod
    def singleton(label: str) -> Uid:
        return Uid(label, None)

    @staticmethod
    def instance_from_value(value: int, label: str | None = None) -> Uid:
        """The identity of a number from `instance_value`; raises `ValueError` for one that is too large or negative."""
        if not 0 <= value < 1 << 8 * _BYTES:
            raise ValueError(f"{value} is no identity: it has to fit into {8 * _BYTES} bits")
        return Uid(label, value.to_bytes(_BYTES, "big"))

    @staticmethod
    def from_string(uid: str) -> Uid:
        """What `str` printed; raises `ValueError` for anything else."""
        label, number = _split_number(uid)
        if number is None and ("<" in uid or not uid):
            raise ValueError(f"{uid!r} is no identity: expected `label`, or `label<…>` with {_DIGITS} digits")
        return Uid(label, number)

    @property
    def label(self) -> str | None:
        return self._label

    @property
    def is_singleton(self) -> bool:
        return self._value is None

    @property
    def is_instance(self) -> bool:
        return self._value is not None

    @property
    def instance_value(self) -> int | None:
        """The identity as a number; None of a singleton."""
        return None if self._value is None else int.from_bytes(self._value, "big")

    def _key(self) -> object:
        return self._label if self._value is None else self._value

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Uid) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return (self._label or "") + ("" if self._value is None else _number(self._value))

    def __repr__(self) -> str:
        return f"Uid({str(self)!r})"

    def __reduce__(self) -> tuple[type[Uid], tuple[str | None, bytes | None]]:
        return Uid, (self._label, self._value)


class ProcId:
    """Identity of one place in a process mesh."""

    __slots__ = ("_label", "_mesh", "_rank")

    def __init__(self, mesh: bytes, rank: int, label: str = "") -> None:
        """`label` is that of the mesh."""
        self._mesh = mesh
        self._rank = rank
        self._label = label

    @staticmethod
    def from_string(proc_id: str) -> ProcId:
        """What `str` printed; raises `ValueError` for anything else."""
        label, mesh = _split_number(proc_id)
        name, dash, rank = (label or "").rpartition("-")
        if mesh is None or not dash or not rank.isdecimal():
            raise ValueError(f"{proc_id!r} is no process: expected `label-rank<…>`")
        return ProcId(mesh, int(rank), name)

    @property
    def label(self) -> str:
        """`trainers-3`: the mesh and the rank."""
        return f"{identifier(self._label)}-{self._rank}"

    @property
    def uid(self) -> str:
        """The same as `str`: unique."""
        return str(self)

    def __eq__(self, other: object) -> bool:
        return (self._mesh, self._rank) == (other._mesh, other._rank) if isinstance(other, ProcId) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._mesh, self._rank))

    def __str__(self) -> str:
        return self.label + _number(self._mesh)

    def __repr__(self) -> str:
        return f"ProcId({str(self)!r})"

    def __reduce__(self) -> tuple[type[ProcId], tuple[bytes, int, str]]:
        return ProcId, (self._mesh, self._rank, self._label)


class ActorAddr:
    """Identity of one actor and where it lives. Equal where it names the same actor."""

    __slots__ = ("_proc", "_uid")

    def __init__(self, uid: Uid, proc: ProcId) -> None:
        """`uid` is a singleton for what there is one of in a process: the program itself."""
        self._uid = uid
        self._proc = proc

    @staticmethod
    def of(actor: bytes, label: str, proc: ProcId) -> ActorAddr:
        return ActorAddr(Uid(identifier(label), actor), proc)

    @staticmethod
    def root_of(proc: ProcId) -> ActorAddr:
        """The program itself, in its client process."""
        return ActorAddr(Uid.singleton("client"), proc)

    @staticmethod
    def from_string(actor_id: str) -> ActorAddr:
        """What `str` printed; raises `ValueError` for anything else."""
        uid, dot, proc = actor_id.partition(".")
        if not dot:
            raise ValueError(f"{actor_id!r} is no actor: expected `label<…>.proc-rank<…>`")
        return ActorAddr(Uid.from_string(uid), ProcId.from_string(proc))

    @property
    def addr(self) -> str:
        """Where messages to it go: its process."""
        return str(self._proc)

    @property
    def proc_id(self) -> str:
        return str(self._proc)

    @property
    def proc_label(self) -> str:
        return self._proc.label

    proc_name = proc_label

    @property
    def label(self) -> str:
        """The name that it was spawned under, in lower case and without anything but letters, digits, `-` and `_`."""
        return self._uid.label or "nil"

    actor_name = label

    @property
    def uid(self) -> str:
        return str(self._uid)

    pid = uid

    @property
    def is_root(self) -> bool:
        """Whether it is the program itself."""
        return self._uid.is_singleton

    def __eq__(self, other: object) -> bool:
        return (self._uid, self._proc) == (other._uid, other._proc) if isinstance(other, ActorAddr) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._uid, self._proc))

    def __str__(self) -> str:
        return f"{self._uid}.{self._proc}"

    def __repr__(self) -> str:
        return f"ActorAddr({str(self)!r})"

    def __reduce__(self) -> tuple[type[ActorAddr], tuple[Uid, ProcId]]:
        return ActorAddr, (self._uid, self._proc)


def identifier(name: Any) -> str:
    """A name as addresses have it; `nil` where nothing is left."""
    kept = [letter for letter in str(name).lower() if letter.isascii() and (letter.isalnum() or letter in "-_")]
    return "".join(kept) or "nil"


def _number(value: bytes) -> str:
    digits = b2a_base64(value, newline=False).rstrip(b"=").translate(_LETTERS)
    return f"<{digits.decode()}>"


def _split_number(text: str) -> tuple[str | None, bytes | None]:
    """The parts of `label<number>`; the whole text and None where there is no number."""
    label, bracket, digits = text.partition("<")
    if not bracket or not digits.endswith(">") or len(digits) != _DIGITS + 1:
        return text, None
    try:
        number = a2b_base64(digits[:-1].translate(_BACK) + "==")
    except ValueError:
        return text, None
    return (label or None, number) if len(number) == _BYTES else (text, None)
