"""`get_or_spawn_controller`: actors of which the whole program has one for each name."""

from __future__ import annotations

from monarch._actor import requests
from monarch._actor.answers import answer_of_one
from monarch._actor.context import context
from monarch._actor.future import Future
from monarch._actor.mesh_root import Subject
from monarch._actor.pickling import dumps_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from monarch._actor.context import CreatorInstance, Instance
    from monarch._actor.proc_mesh import ProcMesh

    T = TypeVar("T")


def get_or_spawn_controller(name: str, Class: type[T], *args: Any, **kwargs: Any) -> Future[T]:
    """The program's actor of this name, made by `Class(*args, **kwargs)` where there is none or it has failed.

    It lives in the client's process, wherever it is asked for. The failure of a controller is nobody else's. The future
    raises an `ActorError`: also a `TypeError` where a controller of another class has the name or arguments are wrong,
    a `ValueError` for what is no class of actors.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a controller is {name!r}: it has to be a string")
    me = context().actor_instance
    home = _client_of(me)
    payload, buffers = dumps_arguments("get_or_spawn_controller", ("Class",), (Class, *args), kwargs)
    replies = home._targets().call(me.actor, requests.controller(name), payload, buffers)
    subject: Any = Subject(f"get_or_spawn_controller({name!r})", home._region.extent, home._root)
    return Future._of(replies, 1, answer_of_one, subject)


def _client_of(instance: Instance | CreatorInstance) -> ProcMesh:
    """The process of the program that an actor belongs to, however far from it the actor was spawned."""
    while instance.creator is not None:
        instance = instance.creator
    return instance.proc_mesh
