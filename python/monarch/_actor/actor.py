"""`Actor`: the base of user classes."""

from __future__ import annotations

from types import FunctionType, MethodType

from monarch._actor.endpoint import EndpointProperty

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

    from monarch._actor.future import Future
    from monarch._actor.mesh_trait import MeshTrait

    class _Base(MeshTrait):
        """What type checkers see: `procs.spawn("x", T)` is typed as `T` and is a mesh of `T` at run time."""

        @property
        def initialized(self) -> Future[None]: ...
        def stop(self, reason: str = ...) -> Future[None]: ...

else:

    class _Base:
        pass


_ASYNC = 0x0080 | 0x0200  # inspect.CO_COROUTINE, CO_ASYNC_GENERATOR


class Actor(_Base):
    """Derive from it, mark methods with `@endpoint`, and spawn the class on processes.

    All code of an actor runs on one thread of its own, one message at a time. Optional hooks, sync or async:

    * `__supervise__(self, failure: MeshFailure) -> bool`: a mesh that this actor spawned failed. A true result means
      "handled"; a false one, or no such method, fails this actor too, and its owner is asked.
    * `__cleanup__(self, exc: Exception | None)`: this actor ends; `exc` is why, None for an orderly stop.
    * `_handle_undeliverable_message(self, envelope) -> bool`: something that this actor has broadcast, or sent to a
      port, was not delivered. A false result fails this actor; without such a method nothing happens.
    """

    @property
    def logger(self) -> logging.Logger:
        """A logger named after the class, at level DEBUG."""
        import logging

        logger = logging.getLogger(type(self).__name__)
        logger.setLevel(logging.DEBUG)
        return logger

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = f": {_MESH_ONLY_HINT}" if name in _MESH_ONLY else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")


_HOOKS = ("__supervise__", "__cleanup__", "_handle_undeliverable_message")

_MESH_ONLY = frozenset(
    ("stop", "initialized", "slice", "split", "flatten", "rename", "size", "sizes", "extent", "items", "item")
)
_MESH_ONLY_HINT = (
    "it belongs to the mesh that `spawn` returned; inside an actor see `context().actor_instance` and `current_size()`"
)


def is_async_kind(actor_class: type) -> bool:
    """Whether actors of this class have an event loop: any async endpoint or hook, or no endpoints at all."""
    endpoints = endpoints_of(actor_class)
    hooks = [getattr(actor_class, name, None) for name in _HOOKS]
    methods = [endpoint._method for endpoint in endpoints.values()]
    return not endpoints or any(is_async(method) for method in [*methods, *hooks])


def is_async(function: Any) -> bool:
    """Whether calling `function` gives a coroutine or an async generator."""
    if function is None:
        return False
    plain = function.__func__ if type(function) is MethodType else function
    if type(plain) is FunctionType and not plain.__dict__:
        return bool(plain.__code__.co_flags & _ASYNC)
    import inspect  # knows marks and wrappers; 15 ms, for every worker

    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def endpoints_of(actor_class: type) -> dict[str, EndpointProperty[..., Any]]:
    """The endpoints of a class by name, inherited ones included."""
    found: dict[str, EndpointProperty[..., Any]] = {}
    for base in reversed(actor_class.__mro__):
        for name, attribute in vars(base).items():
            if isinstance(attribute, EndpointProperty):
                found[name] = attribute
            else:
                found.pop(name, None)
    return found
