"""`as_endpoint`: calls of methods that are not marked as endpoints."""

from __future__ import annotations

from monarch._actor.actor_mesh import NotAnEndpoint, mesh_of
from monarch._actor.descriptors import method_descriptor
from monarch._actor.endpoint import Endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

    from monarch._actor.ports.port import Port

    P = ParamSpec("P")
    R = TypeVar("R")


if TYPE_CHECKING:

    @overload
    def as_endpoint(
        method: Callable[Concatenate[Port[R], P], object],
        *,
        propagate: Any = None,
        explicit_response_port: Literal[True],
    ) -> Endpoint[P, R]: ...
    @overload
    def as_endpoint(
        method: Callable[P, Awaitable[R]], *, propagate: Any = None, explicit_response_port: Literal[False] = False
    ) -> Endpoint[P, R]: ...
    @overload
    def as_endpoint(
        method: Callable[P, R], *, propagate: Any = None, explicit_response_port: Literal[False] = False
    ) -> Endpoint[P, R]: ...


def as_endpoint(method: Any, *, propagate: Any = None, explicit_response_port: bool = False) -> Any:
    """An endpoint of a plain method of spawned actors: `as_endpoint(mesh.method).call(…)`.

    Wrong arguments are found by the actor: an `ActorError` that is a `TypeError`. `propagate` is for tensor calls.
    Raises `ValueError` for anything else, decorated endpoints included.
    """
    if not isinstance(method, NotAnEndpoint):
        raise ValueError(f"expected a method of a spawned actor, without @endpoint, and got {method!r}")
    root, region, name = method._root, method._region, method._name
    descriptor = method_descriptor(name, region.extent, explicit_response_port)
    return Endpoint(root, region, mesh_of(root, region)._addressed(), name, _AnyArguments(), descriptor)


class _AnyArguments:
    """The signature of a method that only the actor knows."""

    parameters: tuple[str, ...] = ()

    def check(self, args: tuple[object, ...], kwargs: Mapping[str, object], name: str = "") -> None:
        pass
