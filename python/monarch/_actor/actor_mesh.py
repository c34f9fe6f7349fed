"""`ActorMesh`: what `ProcMesh.spawn` returns; its attributes are the endpoints of its class."""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from monarch import _native
from monarch._actor.actor import endpoints_of
from monarch._actor.answers import answered_by_all
from monarch._actor.context import process, sender
from monarch._actor.descriptors import LOOK_UP
from monarch._actor.endpoint import Endpoint, EndpointProperty
from monarch._actor.future import Future
from monarch._actor.mesh_root import MeshRoot, Subject
from monarch._actor.mesh_trait import MeshTrait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, NoReturn

    from typing_extensions import Buffer, Self

    from monarch._actor.ports.turns import Turns
    from monarch._actor.proc_mesh import ProcMesh
    from monarch._actor.shape import Point, Region
    from monarch._actor.stacks import StackDump


class ActorMeshRoot(MeshRoot):
    """An actor mesh as it was spawned."""

    __slots__ = ("actor", "actor_class", "carried", "failed", "procs", "request", "skipped", "spawned")

    member = "actor"

    def __init__(self, actor: bytes, procs: ProcMesh, name: str, actor_class: type) -> None:
        super().__init__(actor, name, procs._region, procs._root.region)
        self.actor = actor
        self.procs = procs  # the processes as given to `spawn`
        self.actor_class = actor_class
        self.request: tuple[bytes, Sequence[Buffer]] | None = (
            None  # class and arguments, where it was spawned from here
        )
        self.carried: list[ref[Turns]] = []  # channels of this process whose ports the constructors were given
        self.failed: dict[int, str] = {}  # whose failure is known here, by process rank, and how
        self.skipped: set[int] = set()  # who was dead when it was last broadcast to, by process rank
        self.spawned: _native.Replies | None = None  # one answer for each constructor, where it was spawned from here
        _roots[actor] = self

    def reference(self) -> ActorMesh:
        return mesh_of(self, self.region)

    def describe_state(self, view: Region) -> str:
        """What follows the name of a view in its `repr`: nothing where all is well."""
        from monarch._actor import description

        return description.state(self.stopped, view, description.actor_ends(self, view))

    def tell_of_skipped(self, label: str, view: Region) -> None:
        """Warn of those who do not get a broadcast, each once for each time that it died."""
        from monarch._actor import description

        ends = description.actor_ends(self, view)
        news = {rank: how for rank, how in ends.items() if rank not in self.skipped}
        self.skipped = self.skipped.difference(view.ranks()).union(ends)
        if news:
            import logging

            who = description.in_words([f"{self.place(rank)} ({how})" for rank, how in sorted(news.items())])
            logging.getLogger("monarch").warning("%s.broadcast skips %d of %d: %s", label, len(ends), len(view), who)


# Copies of a reference that arrive here again and again are one mesh.
_roots: WeakValueDictionary[bytes, ActorMeshRoot] = WeakValueDictionary()


class ActorMesh(MeshTrait):
    """Actors of one class, one on each process of the mesh that they were spawned on, or a view of those.

    A value: pickles small, works wherever it arrives, and is equal to another view of the same actors under the same
    labels. An endpoint wins over a mesh attribute of the same name. Only the object that `spawn` returned can stop it.
    """

    def __init__(self, root: ActorMeshRoot, region: Region, owned: bool = False) -> None:
        self._root = root
        self._view = region
        self._owned = owned
        self._targets: _native.Targets | None = None

    @property
    def _region(self) -> Region:
        return self._view

    def _with_region(self, region: Region) -> Self:
        return type(self)(self._root, region)

    def _addressed(self) -> _native.Targets:
        """Whom messages to this view go to."""
        if self._targets is None:
            root = self._root
            ranks = self._view.ranks()
            self._targets = _native.Targets(process().runtime, root.procs._root.mesh, ranks, root.actor)
        return self._targets

    def __getattr__(self, name: str) -> Any:
        # Reached once for each endpoint: what is found is kept in the instance.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = self._bind(name)
        self.__dict__[name] = found
        return found

    def _bind(self, name: str) -> Endpoint[..., Any] | NotAnEndpoint:
        root = self._root
        attribute = getattr(root.actor_class, name, None)
        if isinstance(attribute, EndpointProperty):
            signature, generates = attribute.signature, attribute.generates
            return Endpoint(root, self._view, self._addressed(), name, signature, generates=generates)
        if callable(attribute):
            return NotAnEndpoint(root, self._view, name)
        raise AttributeError(_unknown_endpoint(root, name))

    @property
    def _name(self) -> Future[str]:
        """The unique name that `MeshFailure.mesh_name` has too. It is there at once; programs wait for it."""
        root = self._root
        return Future._now(lambda _: root.unique_name, Subject(f"{root.name}._name", root.region.extent, root))

    @property
    def initialized(self) -> Future[None]:
        """Done when all constructors have returned; raises what one of them raised.

        Of a reference that arrived here: done when all actors can answer.
        """
        root = self._root
        region = self._view if root.spawned is None else root.region
        replies = root.spawned or self._addressed().call(sender(), LOOK_UP, b"")
        subject = Subject(f"{root.name}.initialized", region.extent, root, "starting actors")
        return Future._of(replies, len(region), answered_by_all, subject, quiet=True)

    def stop(self, reason: str = "stopped by client") -> Future[None]:
        """End the actors in order: what runs completes, what waits is answered with an error, `__cleanup__` runs.

        Starts at once and may be repeated. Done when all have ended; an exception of a `__cleanup__` is its result.
        Raises `NotImplementedError` on a view or a reference that arrived here: only the owner stops a mesh.
        """
        if not self._owned:
            raise NotImplementedError(
                f"{self._root.name}: only the actor mesh that `spawn` returned can be stopped, not a view or a "
                "reference that arrived from elsewhere"
            )
        return process().stop_actor_mesh(self._root, reason)

    def respawn(self, ranks: Iterable[int | Point] | None = None) -> Future[None]:
        """Run the constructor again, with its original arguments, where an actor has ended; references stay valid.

        `ranks` are positions in this mesh, as `MeshFailure.ranks` has them; an actor that still lives there is ended
        first. Without `ranks`: wherever the actor has ended. Starts at once. Done when the constructors have returned;
        raises what one of them raised, or `SupervisionError` where the process is dead: respawn that first, see
        `ProcMesh.respawn`. Raises `NotImplementedError` on a view or a reference that arrived here, `RuntimeError`
        when the mesh was stopped, `IndexError` for a rank that the mesh does not have.
        """
        root = self._root
        if not self._owned:
            raise NotImplementedError(
                f"{root.name}: only the actor mesh that `spawn` returned can be respawned, not a view or a reference "
                "that arrived from elsewhere"
            )
        if root.stopped is not None:
            raise RuntimeError(f"cannot respawn {root.name!r}: it was stopped: {root.stopped}")
        return process().respawn_actor_mesh(root, root.positions(ranks), only_ended=ranks is None)

    def dump_stacks(self, timeout: float = 5.0) -> Future[StackDump]:
        """What every thread of every actor's process is doing: `print(mesh.dump_stacks().get())`.

        Also while an interpreter is busy. Stacks that are equal are one, with its ranks. A rank that is dead, or has
        not told after `timeout` seconds, is in `missing`, with why. Raises `ValueError` for a `timeout` that makes no
        sense.
        """
        from monarch._actor import stacks

        subject = Subject(f"{self._root.name}.dump_stacks", self._view.extent, self._root)
        return stacks.ask(self._root.procs._root, subject, self._view, timeout)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorMesh):
            return NotImplemented
        return self._root.actor == other._root.actor and self._view == other._region

    def __hash__(self) -> int:
        return hash((self._root.actor, self._view))

    def __repr__(self) -> str:
        from monarch._actor import description

        root, view = self._root, self._view
        where = description.in_words(description.host_names(root.procs._root, view))
        state = root.describe_state(view)
        return f"<ActorMesh {root.name} of {root.actor_class.__qualname__} {view.extent} on {where}{state}>"

    def _repr_html_(self) -> str:
        from monarch._actor import html

        return html.actor_mesh(self)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        root = self._root
        return _arrived, (root.actor, root.procs, root.name, root.actor_class, self._view)


class NotAnEndpoint:
    """A plain method of the actor class, as an attribute of the mesh: it cannot be called from outside."""

    __slots__ = ("_name", "_region", "_root")

    def __init__(self, root: ActorMeshRoot, region: Region, name: str) -> None:
        self._root = root
        self._region = region
        self._name = name

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(self._explain("it cannot be called on a mesh"))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(self._explain(f"it has no {name!r}"))

    def __repr__(self) -> str:
        return f"<method {self._root.actor_class.__qualname__}.{self._name}, not an endpoint, of {self._root.name}>"

    def _explain(self, consequence: str) -> str:
        method = f"{self._root.actor_class.__qualname__}.{self._name}"
        return (
            f"{method} (mesh {self._root.name!r}) is not an endpoint, so {consequence}: mark it with @endpoint, or use "
            "as_endpoint"
        )


def mesh_of(root: ActorMeshRoot, region: Region, owned: bool = False) -> ActorMesh:
    """A view of the mesh; of a class whose endpoints win where its actors have endpoints named like mesh attributes."""
    return _mesh_type(root.actor_class)(root, region, owned)


def _arrived(actor: bytes, procs: ProcMesh, name: str, actor_class: type, region: Region) -> ActorMesh:
    root = _roots.get(actor) or ActorMeshRoot(actor, procs, name, actor_class)
    return mesh_of(root, region)


class _WinningEndpoint:
    """Puts an endpoint before the mesh attribute of the same name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, mesh: ActorMesh, owner: type) -> Any:
        return mesh.__getattr__(self._name)


_mesh_types: WeakKeyDictionary[type, type[ActorMesh]] = WeakKeyDictionary()


def _mesh_type(actor_class: type) -> type[ActorMesh]:
    found = _mesh_types.get(actor_class)
    if found is None:
        clashes = {name: _WinningEndpoint(name) for name in endpoints_of(actor_class) if hasattr(ActorMesh, name)}
        found = type("ActorMesh", (ActorMesh,), clashes) if clashes else ActorMesh
        _mesh_types[actor_class] = found
    return found


def _unknown_endpoint(root: ActorMeshRoot, name: str) -> str:
    from difflib import get_close_matches

    known = sorted(endpoints_of(root.actor_class))
    near = get_close_matches(name, known)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {', '.join(known) or 'none'}"
    return f"{root.actor_class.__qualname__} has no endpoint {name!r} (mesh {root.name!r}): {hint}"
