"""`JobState`: the hosts of a job that runs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from monarch.actor import HostMesh


class JobState:
    """The host meshes of a job, each an attribute: `job.state().trainers`."""

    query_engine: None = None
    query_engine_client: None = None
    telemetry_url: None = None
    dashboard_url: None = None
    admin_url: None = None

    def __init__(self, hosts: Mapping[str, HostMesh]) -> None:
        self._hosts = dict(hosts)

    def __getattr__(self, name: str) -> HostMesh:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._hosts[name]
        except KeyError:
            known = ", ".join(self._hosts) or "none"
            raise AttributeError(f"the job has no host mesh {name!r}: it has {known}") from None

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._hosts])

    def __repr__(self) -> str:
        return f"<JobState {', '.join(f'{name}={mesh!r}' for name, mesh in self._hosts.items())}>"
