"""Hooks for dashboards and the like: who wants to know of process meshes that this process starts."""

from __future__ import annotations

import sys
from weakref import WeakSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from monarch._actor.proc_mesh import ProcMesh, ProcMeshRoot

    SpawnCallback = Callable[[ProcMesh], object]

_callbacks: list[SpawnCallback] = []
_roots: WeakSet[ProcMeshRoot] = WeakSet()


def register_proc_mesh_spawn_callback(callback: SpawnCallback) -> None:
    """Call `callback(procs)` with each mesh that `spawn_procs` makes here, in the thread that makes it."""
    _callbacks.append(callback)


def unregister_proc_mesh_spawn_callback(callback: SpawnCallback) -> None:
    """Do not call it any more; nothing happens where it is not registered."""
    if callback in _callbacks:
        _callbacks.remove(callback)


def get_active_proc_meshes() -> list[ProcMesh]:
    """Meshes that were made here and have not been stopped, as far as somebody still holds them."""
    return [root.reference() for root in list(_roots) if root.stopped is None]


def spawned(procs: ProcMesh) -> None:
    """Tell everybody. What a callback raises is printed: the mesh is there."""
    _roots.add(procs._root)
    for callback in list(_callbacks):
        try:
            callback(procs)
        except Exception:
            sys.excepthook(*sys.exc_info())
