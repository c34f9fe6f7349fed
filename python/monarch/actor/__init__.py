"""Actors on meshes of processes.

Spawn processes on a host (`this_host().spawn_procs`), spawn actors on them (`procs.spawn`), and send to whole meshes
at once (`mesh.method.call`).
"""

from monarch._actor.actor import Actor
from monarch._actor.actor_mesh import ActorMesh
from monarch._actor.bootstrap_command import BootstrapCommand, default_bootstrap_cmd
from monarch._actor.context import (
    Context,
    CreatorInstance,
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
from monarch._actor.errors import ActorError, BackPressureError, SupervisionError
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
from monarch._actor.shape import Extent, NDSlice, Point, Region, Shape, Slice
from monarch._actor.value_mesh import ValueMesh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.hosts.attaching import attach, attach_to_workers
    from monarch._actor.hosts.transport import ChannelTransport, enable_transport
    from monarch._actor.hosts.worker_loop import (
        run_worker_loop_forever,
        run_worker_loop_until_shutdown,
        start_worker_loop_forever,
    )
    from monarch._actor.identity import ActorAddr, ProcId, Uid
    from monarch._actor.lazy import returns_future
    from monarch._actor.recovery.pool import ElasticPool
    from monarch._actor.shutdown import shutdown_context
    from monarch._actor.telemetry import get_meter, span, traced
    from monarch.actor import config

__all__ = [
    "Accumulator",
    "Actor",
    "ActorAddr",
    "ActorError",
    "ActorMesh",
    "BootstrapCommand",
    "BackPressureError",
    "Channel",
    "ChannelTransport",
    "Context",
    "CreatorInstance",
    "ElasticPool",
    "Endpoint",
    "Extent",
    "Future",
    "HostMesh",
    "Instance",
    "MeshFailure",
    "NDSlice",
    "Point",
    "Port",
    "PortReceiver",
    "ProcId",
    "ProcMesh",
    "RankedPortReceiver",
    "Region",
    "RestartPolicy",
    "Shape",
    "Slice",
    "SupervisionError",
    "Uid",
    "UnhandledFailure",
    "ValueMesh",
    "ValueStream",
    "as_endpoint",
    "attach",
    "attach_to_workers",
    "concurrent_endpoint",
    "config",
    "context",
    "current_actor_name",
    "current_rank",
    "current_size",
    "default_bootstrap_cmd",
    "enable_transport",
    "endpoint",
    "get_meter",
    "get_or_spawn_controller",
    "returns_future",
    "send",
    "shutdown_context",
    "span",
    "run_worker_loop_forever",
    "run_worker_loop_until_shutdown",
    "start_worker_loop_forever",
    "this_host",
    "this_proc",
    "traced",
    "unhandled_fault_hook",
]


# What few programs use is imported when it is first asked for.
_LATER = {
    "ActorAddr": "identity",
    "ChannelTransport": "hosts.transport",
    "ElasticPool": "recovery.pool",
    "ProcId": "identity",
    "Uid": "identity",
    "attach": "hosts.attaching",
    "attach_to_workers": "hosts.attaching",
    "enable_transport": "hosts.transport",
    "get_meter": "telemetry",
    "returns_future": "lazy",
    "run_worker_loop_forever": "hosts.worker_loop",
    "run_worker_loop_until_shutdown": "hosts.worker_loop",
    "shutdown_context": "shutdown",
    "span": "telemetry",
    "start_worker_loop_forever": "hosts.worker_loop",
    "traced": "telemetry",
}

_SUBMODULES = ("concurrent", "config")
_NOT_YET = {"debug_controller": "the debugger"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _NOT_YET:
        # An import says this; of an `AttributeError` it would only say that the name is not there.
        raise ImportError(f"monarch.actor.{name}: {_NOT_YET[name]} is not part of this version")
    if name in _SUBMODULES:
        return import_module(f"monarch.actor.{name}")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"monarch._actor.{_LATER[name]}"), name)
    globals()[name] = found
    return found
