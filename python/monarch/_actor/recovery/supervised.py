"""`SupervisedProcs`: processes whose actors are restarted by a policy."""

from __future__ import annotations

from monarch._actor.recovery.policy import RestartPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from monarch._actor.proc_mesh import ProcMesh

    T = TypeVar("T")


class SupervisedProcs:
    """What `ProcMesh.supervised` returns."""

    __slots__ = ("_policy", "_procs")

    def __init__(self, procs: ProcMesh, policy: RestartPolicy) -> None:
        if not isinstance(policy, RestartPolicy):
            raise TypeError(f"a RestartPolicy is needed, not {policy!r}")
        self._procs = procs
        self._policy = policy

    def spawn(self, name: str, Class: type[T], *args: Any, **kwargs: Any) -> T:
        """`ProcMesh.spawn`, of actors that are restarted by the policy; raises what that raises."""
        return self._procs._spawn(name, Class, args, kwargs, self._policy)

    def __repr__(self) -> str:
        return f"<{self._procs!r} supervised by {self._policy!r}>"
