"""`Generic`, `TypeVar`, `ParamSpec` and `overload` for code that must not pay for importing `typing` (about 10 ms).

A type checker sees the real ones. At run time they only make `Class[argument]` a harmless alias.
"""

from __future__ import annotations

from types import GenericAlias

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic as Generic
    from typing import ParamSpec as ParamSpec
    from typing import TypeVar as TypeVar
    from typing import overload as overload
else:

    class Generic:
        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)

    def TypeVar(name, *bounds, **options):
        return name

    ParamSpec = TypeVar

    def overload(function):
        return function
