"""`HostMesh`: hosts, on which processes are started."""

from __future__ import annotations

from operator import index as to_int

from monarch._actor import settings
from monarch._actor.context import process
from monarch._actor.future import Future
from monarch._actor.mesh_root import MeshRoot
from monarch._actor.mesh_trait import MeshTrait
from monarch._actor.shape import Extent, Region

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from os import PathLike
    from typing import Any

    from typing_extensions import Self

    from monarch import _native
    from monarch._actor.bootstrap_command import BootstrapCommand
    from monarch._actor.proc_mesh import ProcMesh
    from monarch._actor.shape import Point
    from monarch._actor.stacks import HostStackDump

    Hosts = tuple[tuple[bytes, str], ...]


class HostMeshRoot(MeshRoot):
    """Hosts as they were attached: identity and name of each, in order."""

    __slots__ = ("attached", "hosts", "replacements")

    member = "host"

    def __init__(self, identity: bytes, name: str, region: Region, hosts: Hosts) -> None:
        super().__init__(identity, name, region, region)
        self.hosts = hosts
        self.attached: _native.Replies | None = None  # one answer for each host, where they were attached from here
        self.replacements: dict[int, _native.Replies] = {}  # by rank: the answer of the host that is there now


class HostMesh(MeshTrait):
    """Hosts, or a view of some of them. `this_host()` has no dimensions: it is one host.

    A value: pickles small, and processes can be started on it wherever it arrives. Only the object that
    `attach_to_workers` (or a job) returned can stop hosts; `async with` shuts them down at the end.
    """

    def __init__(self, root: HostMeshRoot, region: Region, owned: bool = False, python: str | None = None) -> None:
        self._root = root
        self._view = region
        self._owned = owned
        self._python = python  # the interpreter of processes that are spawned here, where it is not the host's

    @property
    def _region(self) -> Region:
        return self._view

    def _with_region(self, region: Region) -> Self:
        return type(self)(self._root, region, python=self._python)

    def spawn_procs(
        self,
        per_host: Mapping[str, int] | None = None,
        bootstrap: Callable[[], None] | Callable[[], Awaitable[None]] | None = None,
        name: str | None = None,
        proc_bind: Sequence[Mapping[str, str]] | None = None,
        bootstrap_command: BootstrapCommand | Callable[[Point], BootstrapCommand] | None = None,
    ) -> ProcMesh:
        """Start processes on each host: `spawn_procs({"gpus": 8})`; one without `per_host`. Returns at once.

        The mesh has the dimensions of the hosts, then those of `per_host`. `bootstrap` runs in every process before any
        actor. `proc_bind` binds the processes of each host to CPUs and memory, one dict for each of them with the keys
        `cpus` (as of taskset) or `cpunodebind`, `membind`, `physcpubind` (as of numactl). `bootstrap_command` says how
        processes are started: one command for all, or a function of the point.

        Raises `TypeError` and `ValueError` for wrong dimensions and bindings, `RuntimeError` when the hosts were
        stopped, `OSError` or `RuntimeError` where a limit of the machine is in the way (the text names the number to
        raise).
        """
        if self._root.stopped is not None:
            raise RuntimeError(f"cannot spawn processes on {self!r}: the hosts have already been {self._root.stopped}")
        from monarch._actor.hosts.commands import commands

        extent = _procs_extent(self._view.extent, per_host)
        per_host_count = extent.nelements // len(self._view)
        how = commands(self, extent, per_host_count, proc_bind, bootstrap_command, self._python)
        return process().spawn_proc_mesh(self, extent, name or "anon", bootstrap, how)

    @property
    def stream_logs(self) -> bool:
        """Whether the output of processes that are started now is shown at the client."""
        shown: bool = settings.value("enable_log_forwarding")
        return shown

    @property
    def initialized(self) -> Future[bool]:
        """Done when all hosts of the mesh are attached; raises `RuntimeError` that names each that is not, and why."""
        from monarch._actor.hosts.attaching import all_attached
        from monarch._actor.mesh_root import Subject

        root = self._root
        subject = Subject(f"{root.name}.initialized", root.region.extent, root, "attaching hosts")
        if root.attached is None:
            return Future._now(lambda _: True, subject)
        return Future._of(root.attached, len(root.hosts), all_attached, subject, quiet=True)

    def with_python_executable(self, path: str | PathLike[str]) -> HostMesh:
        """The same hosts with another interpreter for the processes that are spawned on them from now on."""
        from os import fspath

        return HostMesh(self._root, self._view, self._owned, fspath(path))

    def replace(self, rank: int | Point, address: str, *, patience_s: float = 10.0) -> Future[None]:
        """Put the host whose worker program listens at `address` in the place of a lost one.

        `rank` is its position in this mesh. Starts at once; done when the host is attached; where nobody listens yet it
        is tried for `patience_s` seconds. References stay valid, and
        `ProcMesh.respawn` starts the processes that were lost there again. Raises `RuntimeError` on a view or a
        reference and where the hosts were stopped, `IndexError` for a rank that the mesh lacks, `ValueError` for a
        malformed address; the future raises `RuntimeError` where the host in that place is not lost, or the new one
        cannot be attached.
        """
        if not self._owned:
            raise RuntimeError(f"cannot replace a host of {self!r}: it is a reference; only what attached them can")
        if self._root.stopped is not None:
            raise RuntimeError(f"cannot replace a host of {self!r}: they have already been {self._root.stopped}")
        from monarch._actor.hosts.attaching import replace_host

        (position,) = self._root.positions([rank])
        return replace_host(self._root, position, address, patience_s)

    def stop(self) -> Future[None]:
        """End all processes on the hosts and leave the hosts ready for another client.

        Starts at once and may be repeated. Raises `RuntimeError` on a view or a reference.
        """
        return self._release(False)

    def shutdown(self) -> Future[None]:
        """End all processes on the hosts, and the worker programs of the hosts: they exit with status 0.

        Starts at once and may be repeated. Raises `RuntimeError` on a view or a reference.
        """
        return self._release(True)

    def dump_stacks(self, timeout: float = 5.0) -> Future[HostStackDump]:
        """What every thread is doing in all processes on these hosts that this one knows, itself included.

        As `ProcMesh.dump_stacks` of each of their meshes, at once. Raises `ValueError` for a `timeout` that makes no
        sense.
        """
        from monarch._actor import stacks

        return stacks.ask_hosts(self, timeout)

    def _release(self, exit: bool) -> Future[None]:
        if not self._owned:
            verb = "shut down" if exit else "stop"
            raise RuntimeError(f"cannot {verb} {self!r}: it is a reference; only what attached the hosts can")
        return process().release_hosts(self._root, exit)

    async def __aenter__(self) -> Self:
        if self._root.stopped is not None:
            raise RuntimeError(f"the hosts {self._root.name!r} have already been {self._root.stopped}")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.shutdown()

    def _identities(self) -> tuple[bytes, ...]:
        """Who the hosts of this view are, in order."""
        hosts = self._root.hosts
        return tuple(hosts[rank][0] for rank in self._view.ranks())

    def _host(self, position: int) -> HostMesh:
        """One host of this view, as a mesh without dimensions."""
        return HostMesh(self._root, Region.of_rank(self._view.base_rank(position)), python=self._python)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HostMesh):
            return NotImplemented
        return (self._identities(), self._view.extent) == (other._identities(), other._view.extent)

    def __hash__(self) -> int:
        return hash((self._identities(), self._view.extent))

    def _names(self) -> tuple[str, ...]:
        """What the hosts of this view are called, in order."""
        hosts = self._root.hosts
        return tuple(hosts[rank][1] for rank in self._view.ranks())

    def __repr__(self) -> str:
        from monarch._actor import description

        names = self._names()
        where = "" if names == (self._root.name,) else f" on {description.in_words(names)}"
        state = f", {self._root.stopped}" if self._root.stopped is not None else ""
        state = state or description.state(None, self._view, description.host_ends(self))
        return f"<HostMesh {self._root.name} {self._view.extent}{where}{state}>"

    def _repr_html_(self) -> str:
        from monarch._actor import html

        return html.host_mesh(self)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        root = self._root
        region = None if self._view == root.region else self._view
        return _arrived, (root.identity, root.name, root.region, root.hosts, region, self._python)


def single_host(identity: bytes, name: str) -> HostMesh:
    """The host of a client, as a mesh without dimensions."""
    region = Extent((), ()).region
    return HostMesh(HostMeshRoot(identity, name, region, ((identity, name),)), region)


def _arrived(
    identity: bytes, name: str, whole: Region, hosts: Hosts, region: Region | None, python: str | None
) -> HostMesh:
    root = HostMeshRoot(identity, name, whole, hosts)
    return HostMesh(root, whole if region is None else region, python=python)


def _procs_extent(hosts: Extent, per_host: Mapping[str, int] | None) -> Extent:
    """Host dimensions followed by process dimensions, checked."""
    from collections.abc import Mapping

    if per_host is None:
        per_host = {}
    if not isinstance(per_host, Mapping):
        raise TypeError(f"per_host is {per_host!r}: it has to be a dict of sizes by label, such as {{'gpus': 8}}")
    for label in per_host:
        if not isinstance(label, str):
            raise TypeError(f"per_host has the label {label!r}: labels have to be strings")
        if label in hosts:
            raise ValueError(f"per_host has the label {label!r}, which is a dimension of the hosts already")
    sizes = [_size(label, size) for label, size in per_host.items()]
    return Extent((*hosts.labels, *per_host), (*hosts.sizes, *sizes))


def _size(label: str, size: Any) -> int:
    try:
        number = to_int(size)
    except TypeError:
        raise TypeError(f"per_host: dimension {label!r} has size {size!r}: sizes have to be integers") from None
    if number < 1:
        raise ValueError(f"per_host: dimension {label!r} has size {number}: every dimension needs a size of at least 1")
    return number
