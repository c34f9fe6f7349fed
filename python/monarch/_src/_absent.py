"""What is said of names below `monarch._src` and `monarch._rust_bindings` that are not here.

Light: every worker starts by a module below `monarch._src`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import NoReturn

# Where names are looked for that may be proposed.
_PUBLIC = "monarch.actor"


def absent_name(module: str, name: str) -> NoReturn:
    """Raise for a name that a module of older paths lacks: `ImportError` where the public module has it."""
    if not name.startswith("_"):
        from importlib import import_module

        if name in import_module(_PUBLIC).__all__:
            raise ImportError(f"cannot import name {name!r} from {module!r}, which is private: it is in {_PUBLIC!r}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class _AbsentModules:
    """Asked last: finds nothing, and says where else to look."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.startswith(("monarch._src.", "monarch._rust_bindings.")):
            raise ModuleNotFoundError(
                f"no module named {fullname!r}, which is private: what programs need is in {_PUBLIC!r}", name=fullname
            )
        return None


def install() -> None:
    """Let imports of absent modules say so."""
    if _AbsentModules not in sys.meta_path:
        sys.meta_path.append(_AbsentModules)
