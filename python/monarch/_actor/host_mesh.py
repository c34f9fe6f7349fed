"""`HostMesh`: hosts, on which processes are started."""

from __future__ import annotations

from operator import index as to_int

from monarch._actor import settings
from monarch._actor.context import process
from monarch._actor.mesh_trait import MeshTrait
from monarch._actor.shape import Extent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, NoReturn

    from typing_extensions import Self

    from monarch._actor.proc_mesh import ProcMesh
    from monarch._actor.shape import Region


class HostMesh(MeshTrait):
    """Hosts, or a view of some of them. `this_host()` has no dimensions: it is one host.

    A value: pickles small, and processes can be started on it wherever it arrives.
    """

    def __init__(self, agent: bytes, name: str, region: Region) -> None:
        self._agent = agent  # process mesh of the client whose agent looks after the host
        self._name = name
        self._view = region

    @property
    def _region(self) -> Region:
        return self._view

    def _with_region(self, region: Region) -> Self:
        return type(self)(self._agent, self._name, region)

    def spawn_procs(
        self,
        per_host: Mapping[str, int] | None = None,
        bootstrap: Callable[[], None] | Callable[[], Awaitable[None]] | None = None,
        name: str | None = None,
        proc_bind: list[dict[str, str]] | None = None,
        bootstrap_command: Any = None,
    ) -> ProcMesh:
        """Start processes on each host: `spawn_procs({"gpus": 8})`; one without `per_host`. Returns at once.

        The mesh has the dimensions of the hosts, then those of `per_host`. `bootstrap` runs in every process before any
        actor. Raises `TypeError` and `ValueError` for wrong dimensions, `OSError` or `RuntimeError` where a limit of
        the machine is in the way (the text names the number to raise).
        """
        _refuse_unsupported(proc_bind=proc_bind, bootstrap_command=bootstrap_command)
        extent = _procs_extent(self._view.extent, per_host)
        return process().spawn_proc_mesh(self, extent, name or "anon", bootstrap)

    @property
    def stream_logs(self) -> bool:
        """Whether the output of processes that are started now is shown at the client."""
        shown: bool = settings.value("enable_log_forwarding")
        return shown

    def stop(self) -> NoReturn:
        """Raises `RuntimeError`: this host is only referred to, and ends with the program."""
        raise RuntimeError(f"cannot stop {self!r}: it is a reference to the host that this program runs on")

    shutdown = stop

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HostMesh):
            return NotImplemented
        return (self._agent, self._view) == (other._agent, other._view)

    def __hash__(self) -> int:
        return hash((self._agent, self._view))

    def __repr__(self) -> str:
        return f"<HostMesh {self._name} {self._view.extent}>"

    def __reduce__(self) -> tuple[object, tuple[bytes, str, Region]]:
        return HostMesh, (self._agent, self._name, self._view)


def _refuse_unsupported(**options: object) -> None:
    for option, value in options.items():
        if value is not None:
            raise NotImplementedError(f"spawn_procs: `{option}` is not supported by this version")


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
