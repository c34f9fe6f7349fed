"""What this process has registered, and how long that lasts.

A registration ends with the last object that names it, unless one has left the process in a message: then there may be
copies anywhere, and it lives until somebody drops it.
"""

from __future__ import annotations

import sys
from weakref import WeakSet

from monarch._native import RdmaHandle, RdmaMemory, RdmaRegistration, rdma_drops_of_others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any


class Registered:
    """A registration of this process."""

    __slots__ = ("__weakref__", "made_at", "native", "read_only", "size")

    def __init__(self, memory: RdmaMemory, read_only: bool) -> None:
        let_go_of_what_others_dropped()
        self.native = RdmaRegistration(_owner(), memory, read_only)
        self.read_only = read_only or memory.read_only
        self.size = memory.size
        self.made_at = _caller()
        _all.add(self)

    def export(self) -> None:
        """A handle leaves: from now on it lives until it is dropped."""
        if self.native.live:
            _exported.add(self)

    def release(self) -> None:
        """End it; nobody is at the memory any more when this returns. May be repeated."""
        _exported.discard(self)
        self.native.release()


_all: WeakSet[Registered] = WeakSet()
_exported: set[Registered] = set()
_drops_seen = 0


def registered_as(handle: RdmaHandle) -> Registered | None:
    """What a handle that has come back names here; None for memory of others."""
    return next((one for one in list(_exported) if handle.names(one.native)), None)


def let_go_of_what_others_dropped() -> None:
    global _drops_seen
    drops = rdma_drops_of_others()
    if drops != _drops_seen:
        _drops_seen = drops
        for registered in [one for one in list(_exported) if not one.native.live]:
            registered.release()


class LiveBuffer:
    """One line of `live_buffers()`."""

    __slots__ = ("exported", "made_at", "read_only", "size")

    def __init__(self, size: int, read_only: bool, exported: bool, made_at: str) -> None:
        self.size = size  # bytes
        self.read_only = read_only
        self.exported = exported  # a handle has left the process, so that only `drop()` ends it
        self.made_at = made_at  # file:line

    def __repr__(self) -> str:
        words = ["read-only"] * self.read_only + ["exported"] * self.exported
        return f"<{self.size} bytes, made at {self.made_at}{''.join(', ' + word for word in words)}>"


def live_buffers() -> list[LiveBuffer]:
    """What this process has registered, and where in its code: what was forgotten to be dropped stands here."""
    let_go_of_what_others_dropped()
    live = [one for one in list(_all) if one.native.live]
    return [LiveBuffer(one.size, one.read_only, one in _exported, one.made_at) for one in live]


def _owner() -> str:
    """This process in words."""
    from monarch._actor import context

    process: Any = context._process
    if process is not None:
        return str(process.identity)
    import os

    return f"process {os.getpid()}"


def _caller() -> str:
    """The line of the program's that registers."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "(unknown)"
