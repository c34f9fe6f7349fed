"""Whether arguments fit a function, checked at the caller before anything is sent."""

from __future__ import annotations

import sys
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from inspect import Signature as FullSignature
    from typing import Any

_VARARGS = 0x04  # inspect.CO_VARARGS, without the 15 ms that importing inspect takes


class Signature:
    """The parameters of a function after the first few, which the runtime fills in (`self`, a response port)."""

    __slots__ = ("_allowed", "_fewest", "_function", "_most", "_needed", "_places", "_required", "_skip", "parameters")

    def __init__(self, function: Callable[..., Any], skip: int) -> None:
        if function is object.__init__:
            function = _takes_nothing  # that one declares `(*args, **kwargs)`
        self._function = function
        self._skip = skip
        # How many positional arguments do without any keyword; none until we know better.
        self._fewest, self._most = 1, 0
        self._places = -1  # positional parameters; -1 where only `inspect` can tell what fits
        self._required = 0  # positional parameters without default
        self._needed: frozenset[str] = frozenset()  # keyword-only parameters without default
        self._allowed: frozenset[str] = frozenset()  # what may be given by keyword
        self.parameters: tuple[str, ...] = ()  # names of the positional parameters
        plain = _undecorated(function)
        if plain is not None:
            self._read(plain)
        else:
            self.parameters = self._inspected_parameters()

    @classmethod
    def of(cls, function: Callable[..., Any], skip: int = 1) -> Signature:
        """The signature of a function, or of what it decorates, without its first `skip` positional parameters."""
        return cls(function, skip)

    def check(self, args: tuple[object, ...], kwargs: Mapping[str, object], name: str = "") -> None:
        """Raise `TypeError` unless the function can be called with these; the text begins with `name` (its own)."""
        if not kwargs and self._fewest <= len(args) <= self._most:
            return
        if not self._fits(len(args), kwargs):
            self._bind(args, kwargs, name)

    def _read(self, function: FunctionType) -> None:
        code = function.__code__
        positional = code.co_varnames[: code.co_argcount]
        keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        self.parameters = positional[self._skip :]
        self._places = len(self.parameters)
        self._required = max(0, code.co_argcount - len(function.__defaults__ or ()) - self._skip)
        self._needed = frozenset(keyword_only).difference(function.__kwdefaults__ or ())
        self._allowed = frozenset((*positional[max(self._skip, code.co_posonlyargcount) :], *keyword_only))
        if not self._needed:
            self._fewest = self._required
            self._most = sys.maxsize if code.co_flags & _VARARGS else self._places

    def _fits(self, count: int, kwargs: Mapping[str, object]) -> bool:
        """Whether `count` positional arguments and these keywords are certainly right."""
        return (
            count <= self._places
            and self._allowed.issuperset(kwargs)
            and self._needed.issubset(kwargs)
            and all(name in kwargs for name in self.parameters[count : self._required])
            and not any(name in kwargs for name in self.parameters[:count])
        )

    def _bind(self, args: tuple[object, ...], kwargs: Mapping[str, object], name: str) -> None:
        signature = self._inspected()
        if signature is None:
            return
        try:
            signature.bind(*(None,) * self._skip, *args, **kwargs)
        except TypeError as error:
            name = name or getattr(self._function, "__qualname__", repr(self._function))
            raise TypeError(f"{name}(): {error}") from None

    def _inspected(self) -> FullSignature | None:
        """The full signature; None for a builtin that does not tell."""
        import inspect

        try:
            return inspect.signature(self._function)
        except ValueError:
            return None

    def _inspected_parameters(self) -> tuple[str, ...]:
        signature = self._inspected()
        parameters = signature.parameters.values() if signature is not None else ()
        return tuple(p.name for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD)[self._skip :]


def _takes_nothing(self: object, /) -> None: ...


def _undecorated(function: Callable[..., Any]) -> FunctionType | None:
    """The function in the middle, where all layers around it leave its signature as it is."""
    while not hasattr(function, "__signature__"):
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is None:
            return function if isinstance(function, FunctionType) else None
        function = wrapped
    return None
