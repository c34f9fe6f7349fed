"""Who runs here, and for which message: `context()` and what hangs off it."""

from __future__ import annotations

from contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from monarch._actor.host_mesh import HostMesh
    from monarch._actor.identity import ActorAddr
    from monarch._actor.local.owner import Owner
    from monarch._actor.local.process import Process
    from monarch._actor.proc_mesh import ProcMesh
    from monarch._actor.shape import Extent, Point

# Set while an actor runs its code, and in the client from the first use of the runtime on.
_context: ContextVar[Context | None] = ContextVar("monarch_context", default=None)

# What this process is to the runtime: None until a client starts or a worker has its welcome.
_process: Process | None = None


class CreatorInstance:
    """The actor that spawned another one, as a value that can travel."""

    __slots__ = ("class_name", "creator", "name", "proc_mesh", "rank")

    def __init__(
        self, name: str, class_name: str | None, rank: Point, proc_mesh: ProcMesh, creator: CreatorInstance | None
    ) -> None:
        self.name = name
        self.class_name = class_name
        self.rank = rank
        self.proc_mesh = proc_mesh
        self.creator = creator

    @property
    def proc(self) -> ProcMesh:
        """The process of this actor, a mesh without dimensions."""
        return self.proc_mesh.slice(**self.rank)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CreatorInstance):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.name, self.class_name, self.rank, self.proc_mesh, self.creator

    def __repr__(self) -> str:
        return _path(self)

    def __reduce__(self) -> tuple[type[CreatorInstance], tuple[object, ...]]:
        return CreatorInstance, self._key()


class Instance:
    """A running actor, seen from inside: `context().actor_instance`. The client's own one is named `root`."""

    __slots__ = ("_owner", "actor", "class_name", "creator", "hears_of_undelivered", "name", "proc_mesh", "rank")

    def __init__(
        self,
        owner: Owner,
        name: str,
        class_name: str | None,
        rank: Point,
        proc_mesh: ProcMesh,
        creator: CreatorInstance | None,
    ) -> None:
        self._owner = owner
        self.actor = owner.actor  # the 16-byte id that messages of this actor carry
        self.name = name
        self.class_name = class_name
        self.rank = rank
        self.proc_mesh = proc_mesh
        self.creator = creator
        self.hears_of_undelivered = False  # its class has a `_handle_undeliverable_message`

    @property
    def proc(self) -> ProcMesh:
        """The process of this actor, a mesh without dimensions."""
        return self.proc_mesh.slice(**self.rank)

    @property
    def actor_id(self) -> ActorAddr:
        """Identity of this actor and where it lives."""
        from monarch._actor.identity import ActorAddr

        here = self._owner.process.identity
        return ActorAddr.root_of(here) if self.creator is None else ActorAddr.of(self.actor, self.name, here)

    @property
    def proc_id(self) -> str:
        """Identity of the process of this actor."""
        return str(self._owner.process.identity)

    def as_creator(self) -> CreatorInstance:
        """This instance as a value that can travel."""
        return CreatorInstance(self.name, self.class_name, self.rank, self.proc_mesh, self.creator)

    def stop(self, reason: str | None = None) -> None:
        """End this actor in order, after the messages that wait for it. No failure: nobody is told.

        Raises `RuntimeError` for the client's own instance.
        """
        self._owner.stop_after_queue(reason or "the actor stopped itself")

    def abort(self, reason: str | None = None) -> None:
        """Fail this actor: its owner's `__supervise__` is told. The handler that runs completes first.

        Raises `RuntimeError` for the client's own instance.
        """
        self._owner.abort(reason or "(no reason provided)")

    kill = abort

    def set_system(self) -> None:
        """Mark this actor as part of the infrastructure, for tools that show a program's actors."""
        self._owner.is_system = True

    def spawn_tensor_engine(self, proc_mesh: ProcMesh) -> Any:
        """A device mesh on these processes, or what `patch_tensor_engine` has put in its place.

        Raises `NotImplementedError` where nothing is: there is no tensor engine in this version.
        """
        from monarch._actor.mocking import tensor_engine_for

        return tensor_engine_for(self._owner.actor_class)(proc_mesh)

    def keeps_own_messages_waiting(self, blocking: bool) -> bool:
        """Whether this actor serves no message for as long as the code that asks waits."""
        return self._owner.keeps_own_messages_waiting(blocking)

    def __repr__(self) -> str:
        return _path(self)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("an actor's Instance cannot be pickled; send `instance.actor_id` or the actor's mesh instead")


class Context:
    """The actor whose code runs here and the message that it works on."""

    __slots__ = ("_extent", "_rank", "actor_instance", "may_block")

    def __init__(self, instance: Instance, rank: int, extent: Extent, may_block: bool = False) -> None:
        self.actor_instance = instance
        self._rank = rank
        self._extent = extent
        self.may_block = may_block  # blocking on the running event loop is right here: it serves nothing else yet

    def elsewhere(self) -> Context:
        """The same for a thread beside the actor's own."""
        return Context(self.actor_instance, self._rank, self._extent) if self.may_block else self

    @property
    def message_rank(self) -> Point:
        """Position of this actor in the mesh as the caller addressed it."""
        from monarch._actor.shape import Point

        return Point(self._rank, self._extent)

    def __repr__(self) -> str:
        return f"<Context of {self.actor_instance!r}, for a message to {self.message_rank or 'it alone'}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Context cannot be pickled: it belongs to the code that runs now")


def context() -> Context:
    """The current actor and message. In a client the first call starts the runtime.

    Raises `RuntimeError` in a thread of a worker that no actor's context reaches.
    """
    current = _context.get()
    if current is not None:
        return current
    return process().default_context()


def current_rank() -> Point:
    """Position of this actor in the mesh as the caller of the current message addressed it."""
    return context().message_rank


def current_size() -> dict[str, int]:
    """Sizes of the mesh as the caller of the current message addressed it, by label."""
    return dict(context()._extent)


def current_actor_name() -> str:
    """Printable, unique name of the current actor."""
    return str(context().actor_instance.actor_id)


def this_proc() -> ProcMesh:
    """The current process, as a mesh without dimensions."""
    return process().proc_mesh


def this_host() -> HostMesh:
    """The host that the current process runs on, as a mesh without dimensions."""
    return process().host_mesh


def process() -> Process:
    """What this process is to the runtime; makes it a client where it is nothing yet."""
    if _process is None:
        from monarch._actor.client import start

        return start()
    return _process


def sender() -> bytes:
    """Id of the actor that sends from here, without making a client of a thread that has none."""
    current = _context.get()
    if current is not None:
        return current.actor_instance.actor
    return process().default_sender()


def _path(instance: Instance | CreatorInstance) -> str:
    label = instance.class_name and f"{instance.class_name} {instance.name}" or instance.name
    position = str(instance.rank) if instance.rank else ""
    step = f"<{label}{position}>"
    return f"{instance.creator!r}.{step}" if instance.creator else step
