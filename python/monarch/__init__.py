"""Monarch: one program that drives a whole cluster.

`monarch.actor` has the actor API. Importing this package alone imports nothing else: the process that looks after
the workers (the keeper) does just that.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_SUBMODULES = ("actor", "config", "job", "spmd")
_GEOMETRY = ("Extent", "NDSlice", "Point", "Region", "Shape", "Slice", "ValueMesh")


def __getattr__(name: str) -> ModuleType | type | str:
    if name in _SUBMODULES:
        import importlib

        return importlib.import_module(f"monarch.{name}")
    if name in _GEOMETRY:
        import monarch.actor

        found: type = getattr(monarch.actor, name)
        return found
    if name == "__version__":
        from monarch._native import __version__

        return __version__
    raise AttributeError(f"module 'monarch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_SUBMODULES, *_GEOMETRY, "__version__"])
