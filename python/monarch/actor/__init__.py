"""Actors on meshes of processes.

Spawn processes on a host (`this_host().spawn_procs`), spawn actors on them (`procs.spawn`), and send to whole meshes
at once (`mesh.method.call`).
"""

from monarch._actor.actor import Actor
from monarch._actor.actor_mesh import ActorMesh
from monarch._actor.bootstrap_command import BootstrapCommand, default_bootstrap_cmd
from monarch._actor.context import (
    Context,
    Instance,
    context,
    current_actor_name,
    current_rank,
    current_size,
    this_host,
    this_proc,
)
from monarch._actor.controllers import get_or_spawn_controller
from monarch._actor.endpoint import Endpoint, ValueStream, concurrent_endpoint, endpoint
from monarch._actor.errors import ActorError, SupervisionError
from monarch._actor.failure import MeshFailure, UnhandledFailure
from monarch._actor.fault_hook import unhandled_fault_hook
from monarch._actor.future import Future
from monarch._actor.host_mesh import HostMesh
from monarch._actor.ports.accumulator import Accumulator
from monarch._actor.ports.channel import Channel
from monarch._actor.ports.plain_methods import as_endpoint
from monarch._actor.ports.port import Port
from monarch._actor.ports.receiver import PortReceiver, RankedPortReceiver
from monarch._actor.ports.sending import send
from monarch._actor.proc_mesh import ProcMesh
from monarch._actor.recovery.policy import RestartPolicy
from monarch._actor.shape import Extent, Point, Region, Shape, Slice
from monarch._actor.value_mesh import ValueMesh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.recovery.pool import ElasticPool
    from monarch.actor import config

__all__ = [
    "Accumulator",
    "Actor",
    "ActorError",
    "ActorMesh",
    "BootstrapCommand",
    "Channel",
    "Context",
    "ElasticPool",
    "Endpoint",
    "Extent",
    "Future",
    "HostMesh",
    "Instance",
    "MeshFailure",
    "Point",
    "Port",
    "PortReceiver",
    "ProcMesh",
    "RankedPortReceiver",
    "Region",
    "RestartPolicy",
    "Shape",
    "Slice",
    "SupervisionError",
    "UnhandledFailure",
    "ValueMesh",
    "ValueStream",
    "as_endpoint",
    "concurrent_endpoint",
    "config",
    "context",
    "current_actor_name",
    "current_rank",
    "current_size",
    "default_bootstrap_cmd",
    "endpoint",
    "get_or_spawn_controller",
    "send",
    "this_host",
    "this_proc",
    "unhandled_fault_hook",
]


def __getattr__(name: str) -> object:
    # What few programs use is imported when it is first asked for.
    if name == "ElasticPool":
        from monarch._actor.recovery.pool import ElasticPool

        globals()[name] = ElasticPool
        return ElasticPool
    if name == "config":
        import importlib

        return importlib.import_module("monarch.actor.config")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
