"""`ProcMesh`: processes, on which actors are spawned."""

from __future__ import annotations

from weakref import WeakSet, WeakValueDictionary

from monarch import _native
from monarch._actor import logs, requests
from monarch._actor.actor import Actor
from monarch._actor.answers import answered_by_all
from monarch._actor.context import process, sender
from monarch._actor.future import Future
from monarch._actor.mesh_root import MeshRoot, Subject
from monarch._actor.mesh_trait import MeshTrait, points
from monarch._actor.mocking import stand_in_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    from typing_extensions import Self

    from monarch._actor.actor_mesh import ActorMeshRoot
    from monarch._actor.host_mesh import HostMesh
    from monarch._actor.recovery.policy import RestartPolicy
    from monarch._actor.recovery.supervised import SupervisedProcs
    from monarch._actor.shape import Point, Region
    from monarch._actor.stacks import StackDump

    T = TypeVar("T")


class ProcMeshRoot(MeshRoot):
    """A process mesh as it was made."""

    __slots__ = ("actors", "cleanup_failure", "host", "mesh")

    member = "process"

    def __init__(self, mesh: bytes, name: str, region: Region, host: HostMesh) -> None:
        super().__init__(mesh, name, region, region)
        self.mesh = mesh
        self.host = host
        self.cleanup_failure: tuple[bytes, Any] | None = None  # what a `__cleanup__` raised first, as it travels
        self.actors: WeakSet[ActorMeshRoot] = WeakSet()  # what was spawned on it from here
        _roots[mesh] = self

    def reference(self) -> ProcMesh:
        return ProcMesh(self, self.region)

    def host_of(self, rank: int) -> HostMesh:
        """The host that a process of this mesh runs on."""
        return self.host._host(rank * len(self.host) // len(self.region))

    def note_stopped(self, reason: str) -> None:
        """From now on nothing is spawned on it, and calls to its actors fail at once."""
        self.stopped = reason
        for actors in self.actors:
            if actors.stopped is None:
                actors.stopped = reason


# Copies of a reference that arrive here again and again are one mesh.
_roots: WeakValueDictionary[bytes, ProcMeshRoot] = WeakValueDictionary()


def known_root(mesh: bytes) -> ProcMeshRoot | None:
    """The mesh of this identity, if anything here still refers to it."""
    return _roots.get(mesh)


def known_roots() -> list[ProcMeshRoot]:
    """All meshes that anything here still refers to."""
    return list(_roots.values())


class ProcMesh(MeshTrait):
    """Processes, or a view of some of them. A value: pickles small and can be spawned on wherever it arrives.

    `async with procs:` stops them at the end.
    """

    def __init__(self, root: ProcMeshRoot, region: Region, owned: bool = False) -> None:
        self._root = root
        self._view = region
        self._owned = owned
        self._requests: _native.Targets | None = None

    @property
    def _region(self) -> Region:
        return self._view

    def _with_region(self, region: Region) -> Self:
        return type(self)(self._root, region)

    def spawn(self, name: str, Class: type[T], *args: Any, **kwargs: Any) -> T:
        """Make one actor of `Class(*args, **kwargs)` in each process; returns the mesh of them at once.

        Messages may be sent right away, they wait for the constructors. Typed as the class, so that its endpoints are
        known to type checkers. Raises `ValueError` when `Class` is not a subclass of `Actor`, `TypeError` when the
        arguments do not fit its constructor or cannot be pickled, `RuntimeError` when the processes were stopped.
        """
        return self._spawn(name, Class, args, kwargs)

    def supervised(self, policy: RestartPolicy) -> SupervisedProcs:
        """`procs.supervised(policy).spawn(…)` makes actors that are restarted by the policy when they fail.

        A failure that the policy does not allow to handle goes to the owner's `__supervise__` as usual.
        """
        from monarch._actor.recovery.supervised import SupervisedProcs

        return SupervisedProcs(self, policy)

    def _spawn(
        self,
        name: str,
        Class: type[T],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        policy: RestartPolicy | None = None,
    ) -> T:
        if self._root.stopped is not None:
            raise RuntimeError(
                f"cannot spawn {name!r}: processes {self._root.name!r} were stopped: {self._root.stopped}"
            )
        actor_class = stand_in_for(Class)
        parameters = _constructor_parameters(actor_class, args, kwargs)
        mesh: Any = process().spawn_actor_mesh(self, name, actor_class, parameters, args, kwargs, policy)
        return mesh  # type: ignore[no-any-return]

    @property
    def initialized(self) -> Future[bool]:
        """Done when all processes are up and have run their `bootstrap`; raises what it raised."""
        replies = self._targets().call(sender(), requests.PING, b"")
        work = "starting processes"
        subject = Subject(f"{self._root.name}.initialized", self._view.extent, self._root, work)
        return Future._of(replies, len(self), _all_up, subject, quiet=True)

    @property
    def host_mesh(self) -> HostMesh:
        """The host of a single process; raises `NotImplementedError` for a mesh of several."""
        if len(self) != 1:
            raise NotImplementedError(f"host_mesh needs a mesh of one process, not of {len(self)}: slice it first")
        return self._root.host_of(self._view.base_rank(0))

    def to_table(self) -> str:
        """The processes as text, one a line: rank, position and, where this is the client, process id."""
        pids = process().runtime.pids(self._root.mesh)
        lines = ["rank  pid      position"]
        for rank, (base, point) in enumerate(zip(self._view.ranks(), points(self._view), strict=True)):
            pid = pids[base] if base < len(pids) and pids[base] else "-"
            lines.append(f"{rank:<4}  {pid:<7}  {point}")
        return "\n".join(lines)

    def stop(self, reason: str = "stopped by client") -> Future[None]:
        """End the processes in order: actors run `__cleanup__`, interpreters finish normally, who hangs is killed.

        Starts at once and may be repeated. The result raises the first exception of a `__cleanup__`. Raises
        `ValueError` on a view or a reference that arrived here.
        """
        if not self._owned:
            raise ValueError(
                f"{self!r} is not owned here; it must be stopped by its owner, on what spawn_procs returned"
            )
        return process().stop_proc_mesh(self._root, reason)

    def respawn(self, ranks: Iterable[int | Point] | None = None) -> Future[None]:
        """Start a new process in each place whose process is dead; references stay valid and mean the new one.

        `ranks` are positions in this mesh, as `MeshFailure.ranks` has them; a process that still lives there is killed
        first. Without `ranks`: wherever the process is dead. Starts at once; done when the new processes run. Their
        actors are made anew by `ActorMesh.respawn`. What was sent to a dead process never reaches its successor.
        Raises `ValueError` on a view or a reference that arrived here, `RuntimeError` when the mesh was stopped,
        `IndexError` for a rank that the mesh does not have. Where a host is lost the future raises `RuntimeError`,
        which names it, and nothing was started: see `HostMesh.replace`.
        """
        root = self._root
        if not self._owned:
            raise ValueError(f"{self!r} is not owned here; it must be respawned by its owner")
        if root.stopped is not None:
            raise RuntimeError(f"cannot respawn processes {root.name!r}: they were stopped: {root.stopped}")
        return process().respawn_proc_mesh(root, None if ranks is None else root.positions(ranks))

    def logging_option(
        self, stream_to_client: bool | None = None, aggregate_window_sec: float | None = None, level: int = 20
    ) -> Future[None]:
        """Treat the output of the processes otherwise from now on, those of the whole mesh also on a view.

        Whether it is shown at the client (None: as before); for how many seconds a line waits for those of other ranks
        that are equal but for numbers, with which it becomes one (None: not at all); and the level of the root logger
        in the processes, by default INFO. Starts at once; done when the living processes have the level. Those that
        are respawned later have it from the start.
        Raises `TypeError` and `ValueError` for wrong values, `RuntimeError` for a window where nothing is shown.
        """
        logs.check_options(stream_to_client, aggregate_window_sec, level)
        return process().change_logs(self._root, stream_to_client, aggregate_window_sec or 0.0, level)

    def dump_stacks(self, timeout: float = 5.0) -> Future[StackDump]:
        """What every thread of every process is doing: `print(mesh.dump_stacks().get())`.

        Also while an interpreter is busy. Stacks that are equal are one, with its ranks. A rank that is dead, or has
        not told after `timeout` seconds, is in `missing`, with why. Raises `ValueError` for a `timeout` that makes no
        sense.
        """
        from monarch._actor import stacks

        subject = Subject(f"{self._root.name}.dump_stacks", self._view.extent, self._root)
        return stacks.ask(self._root, subject, self._view, timeout)

    async def __aenter__(self) -> Self:
        if self._root.stopped is not None:
            raise RuntimeError(f"processes {self._root.name!r} have already been stopped: {self._root.stopped}")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def _targets(self) -> _native.Targets:
        """Where requests to the processes themselves go."""
        if self._requests is None:
            ranks = self._view.ranks()
            self._requests = _native.Targets(process().runtime, self._root.mesh, ranks, _native.PROCESS_ACTOR)
        return self._requests

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProcMesh):
            return NotImplemented
        return self._root.mesh == other._root.mesh and self._view == other._view

    def __hash__(self) -> int:
        return hash((self._root.mesh, self._view))

    def __repr__(self) -> str:
        from monarch._actor import description

        root, view = self._root, self._view
        where = description.in_words(description.host_names(root, view))
        state = description.state(root.stopped, view, description.proc_ends(root, view))
        return f"<ProcMesh {root.name} {view.extent} on {where}{state}>"

    def _repr_html_(self) -> str:
        from monarch._actor import html

        return html.proc_mesh(self)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        root = self._root
        region = None if self._view == root.region else self._view
        return _arrived, (root.mesh, root.name, root.region, root.host, region)


def _arrived(mesh: bytes, name: str, whole: Region, host: HostMesh, region: Region | None) -> ProcMesh:
    root = _roots.get(mesh) or ProcMeshRoot(mesh, name, whole, host)
    return ProcMesh(root, whole if region is None else region)


def _all_up(procs: Subject, replies: _native.Replies) -> bool:
    answered_by_all(procs, replies)
    return True


def _constructor_parameters(actor_class: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """Names of the constructor's parameters, after a check that class and arguments are right."""
    if not (isinstance(actor_class, type) and issubclass(actor_class, Actor)):
        raise ValueError(f"{actor_class!r} cannot be spawned: it has to be a class derived from monarch.actor.Actor")
    constructor = actor_class.__init__
    if constructor is object.__init__:
        if args or kwargs:
            raise TypeError(f"{actor_class.__qualname__}() takes no arguments: the class has no __init__")
        return ()
    from monarch._actor.signature import Signature

    signature = Signature.of(constructor)
    signature.check(args, kwargs, actor_class.__qualname__)
    return signature.parameters
