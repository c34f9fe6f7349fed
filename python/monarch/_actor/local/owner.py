"""`Owner`: something in this process that spawns meshes and is told of their failures."""

from __future__ import annotations

from monarch._actor.supervision import FailureQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.actor_mesh import ActorMeshRoot
    from monarch._actor.causes import Cause
    from monarch._actor.context import Instance
    from monarch._actor.future import Future
    from monarch._actor.local.process import Process
    from monarch._actor.mesh_root import MeshRoot
    from monarch._actor.proc_mesh import ProcMeshRoot


class Owner:
    """An actor of this process, or the program itself in a client: a node of the ownership tree.

    Meshes belong to it from their spawn until they are stopped or it ends; dropping the Python objects ends nothing.
    """

    instance: Instance

    def __init__(self, process: Process, actor: bytes) -> None:
        self.process = process
        self.actor = actor
        self.actor_class: type | None = None
        self.is_system = False  # part of the infrastructure
        self.actor_meshes: dict[bytes, ActorMeshRoot] = {}
        self.proc_meshes: dict[bytes, ProcMeshRoot] = {}
        self.failures = FailureQueue()

    def told_of_failure(self) -> None:
        """`failures` has something new. Called by the server thread; must not block."""
        raise NotImplementedError

    def keeps_own_messages_waiting(self, blocking: bool) -> bool:
        """Whether this owner serves no message for as long as the code that asks waits."""
        return False

    def stop_after_queue(self, reason: str) -> None:
        raise RuntimeError("the program itself cannot be stopped like an actor; return from it instead")

    def abort(self, reason: str) -> None:
        raise RuntimeError("the program itself cannot be aborted like an actor; raise an exception instead")

    def child_died(self, root: MeshRoot, cause: Cause, rank: int) -> None:
        """A member of a mesh of this owner, given by its process rank, failed."""
        if cause.kind == "stopped" or root.stopped is not None:
            return
        if root.restarter is not None:
            root.restarter.child_died(cause, rank)
        else:
            self.tell(root, cause, rank)

    def tell(self, root: MeshRoot, cause: Cause, rank: int) -> None:
        """Let `__supervise__` know. Called by any thread; does not block."""
        self.failures.add(root, cause, rank)
        self.told_of_failure()

    def mesh(self, identity: bytes) -> MeshRoot | None:
        """A mesh of this owner."""
        return self.actor_meshes.get(identity) or self.proc_meshes.get(identity)

    def meshes(self) -> list[MeshRoot]:
        """All meshes of this owner."""
        return [*self.actor_meshes.values(), *self.proc_meshes.values()]

    def stop_children(self, reason: str) -> list[tuple[MeshRoot, Future[None]]]:
        """Begin to stop all meshes of this owner; actors are asked before the processes they live in."""
        actors, procs = list(self.actor_meshes.values()), list(self.proc_meshes.values())
        stops: list[tuple[MeshRoot, Future[None]]] = []
        stops += [(root, self.process.stop_actor_mesh(root, reason)) for root in actors]
        stops += [(root, self.process.stop_proc_mesh(root, reason)) for root in procs]
        return stops
