"""Which classes are replaced in tests; see `monarch._src.actor.mock`. Light to import: every spawn looks here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What is spawned in place of a class.
stand_ins: dict[type, type] = {}

# What makes a device mesh for actors of a class.
tensor_engines: dict[type, Callable[[Any], Any]] = {}


def stand_in_for(actor_class: type) -> type:
    """The class to spawn: itself, or what takes its place for now."""
    return stand_ins.get(_key(actor_class, stand_ins), actor_class) if stand_ins else actor_class


def tensor_engine_for(actor_class: type | None) -> Callable[[Any], Any]:
    """What makes a device mesh for actors of this class; raises `NotImplementedError` where nothing does."""
    found = tensor_engines.get(_key(actor_class, tensor_engines)) if actor_class is not None else None
    if found is None:
        raise NotImplementedError(
            "there is no tensor engine in this version; `patch_tensor_engine` puts something in its place for tests"
        )
    return found


def _key(actor_class: type, replaced: dict[type, Any]) -> type:
    """The class itself, or one of the same name: a class that came by value is another object in each process."""
    if actor_class in replaced:
        return actor_class
    name = actor_class.__module__, actor_class.__qualname__
    return next((known for known in replaced if (known.__module__, known.__qualname__) == name), actor_class)
