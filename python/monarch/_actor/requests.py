"""Requests of one process to another: what their descriptors say.

A request goes to the actor `PROCESS_ACTOR` of a process. Its descriptor is a pickled tuple that begins with a name;
descriptors hold only values of this package, so that the server can read them on its own thread. What comes from the
program (a class, arguments, an exception) is in the payload and is unpickled where user code may run.
"""

from __future__ import annotations

import _pickle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from monarch._actor.context import CreatorInstance
    from monarch._actor.proc_mesh import ProcMesh


def encode(name: str, *fields: object) -> bytes:
    return _pickle.dumps((name, *fields), 5)


def decode(descriptor: bytes) -> tuple[str, tuple[Any, ...]]:
    name, *fields = _pickle.loads(descriptor)
    return name, tuple(fields)


PING = encode("ping")


def spawn(actor: bytes, name: str, procs: ProcMesh, creator: CreatorInstance, owner: tuple[bytes, int, bytes]) -> bytes:
    """Make an actor; the payload has class and arguments. Answered once the constructor returned or failed."""
    return encode("spawn", actor, name, procs, creator, owner)


def respawn(
    actor: bytes,
    name: str,
    procs: ProcMesh,
    creator: CreatorInstance,
    owner: tuple[bytes, int, bytes],
    positions: tuple[int, ...],
    only_ended: bool,
    life: int,
) -> bytes:
    """As `spawn`, in some places of the mesh again: receiver k of the request is at `positions[k]`.

    An actor that is still there is ended first, or, with `only_ended`, left alone. `life` tells news of the new actors
    from news of those before them.
    """
    return encode("respawn", actor, name, procs, creator, owner, positions, only_ended, life)


def stop(actor: bytes, reason: str) -> bytes:
    """End an actor in order. Answered once it has ended."""
    return encode("stop", actor, reason)


def cleanup_failed(mesh: bytes) -> bytes:
    """Tell whoever spawned these processes that a `__cleanup__` raised at the end of one; the payload is what."""
    return encode("cleanup failed", mesh)


def set_log_level(level: int) -> bytes:
    """Let the root logger of a process have this level."""
    return encode("log level", level)


def child_failed(child: bytes, rank: int, life: int) -> bytes:
    """Tell whoever spawned an actor that it died, in this life of it; the payload is the failure's `detail`."""
    return encode("child failed", child, rank, life)


def controller(name: str) -> bytes:
    """Ask a client for the controller of this name; the payload has class and arguments. Answered with its mesh."""
    return encode("controller", name)
