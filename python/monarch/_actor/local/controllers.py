"""`Controllers`: the named actors of which a program has one each; they live in its client."""

from __future__ import annotations

import sys
import threading
from collections import deque

from monarch import _native
from monarch._actor.context import Context, Instance, _context
from monarch._actor.errors import pack_exception
from monarch._actor.local.owner import Owner
from monarch._actor.pickling import dumps, loads_arguments
from monarch._actor.shape import Extent, Point
from monarch._actor.thread_context import start_service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from monarch._actor.actor_mesh import ActorMesh
    from monarch._actor.causes import Cause
    from monarch._actor.local.process import Process
    from monarch._actor.mesh_root import MeshRoot


class Controllers(Owner):
    """Answers `get_or_spawn_controller`, one request after the other, on a thread of its own.

    The failure of one is told on stderr and goes no further: the next request for its name makes it anew.
    """

    def __init__(self, process: Process) -> None:
        super().__init__(process, _native.new_id())
        assert process.root is not None, "only a client has controllers"
        nowhere = Extent((), ())
        creator = process.root.instance.as_creator()
        self.instance = Instance(self, "controllers", None, Point(0, nowhere), process.proc_mesh, creator)
        self._context = Context(self.instance, 0, nowhere)
        self._known: dict[str, tuple[type, ActorMesh]] = {}
        self._requests: deque[tuple[_native.Message, str]] = deque()
        self._asked = threading.Semaphore(0)
        start_service(self._run, "monarch-controllers")

    def ask(self, message: _native.Message, name: str) -> None:
        """Answer `message`, which carries class and arguments, with a reference to the controller of this name."""
        self._requests.append((message, name))
        self._asked.release()

    def child_died(self, root: MeshRoot, cause: Cause, rank: int) -> None:
        if cause.kind != "stopped" and not self.process.ending:
            report = root.failure(cause, [rank]).report()
            print(f"monarch: a controller failed, and is made anew when it is asked for: {report}", file=sys.stderr)

    def _run(self) -> None:
        _context.set(self._context)
        while True:
            self._asked.acquire()
            self._answer(*self._requests.popleft())

    def _answer(self, message: _native.Message, name: str) -> None:
        try:
            (actor_class, *args), kwargs = loads_arguments(message.payload, message.take_buffers())
            answer = dumps(self._get_or_spawn(name, actor_class, args, kwargs))
        except BaseException as error:  # whatever class and arguments do, others want to be answered
            message.reply(_native.STATUS_ERROR, *pack_exception(error))
        else:
            message.reply(_native.STATUS_VALUE, *answer)

    def _get_or_spawn(self, name: str, actor_class: type, args: list[Any], kwargs: dict[str, Any]) -> ActorMesh:
        known, mesh = self._known.get(name, (None, None))
        if known is None or mesh is None or not self._lives(mesh):
            spawned: Any = self.process.proc_mesh.spawn(name, actor_class, *args, **kwargs)
            self._known[name] = actor_class, spawned
            return spawned  # type: ignore[no-any-return]
        if not _is_same(known, actor_class):
            raise TypeError(
                f"controller {name!r} is a {known.__module__}.{known.__qualname__}, not a "
                f"{actor_class.__module__}.{actor_class.__qualname__}: use another name"
            )
        return mesh

    def _lives(self, mesh: ActorMesh) -> bool:
        """Whether it can answer, or is on its way."""
        root = mesh._root
        # In this order: it is among the actors of the process before its constructor has ended.
        begins = root.spawned is not None and not root.spawned.ready(1)
        local = self.process.actors.get(root.actor)
        return begins if local is None else not local.over


def _is_same(one: type, other: type) -> bool:
    """Whether two classes are one: a class that came by value may be another object."""
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
