"""`Process`: what this process is to the runtime, and the server of requests to it."""

from __future__ import annotations

import os
import sys
import threading
import time
from threading import get_ident

from monarch import _native
from monarch._actor import logs, proc_mesh_hooks, requests, settings
from monarch._actor.answers import answered_by_all
from monarch._actor.causes import Cause
from monarch._actor.context import context
from monarch._actor.errors import pack_exception, remote_error, unpack_exception
from monarch._actor.future import Future, raise_unhandled_failure
from monarch._actor.identity import ProcId
from monarch._actor.local import launch
from monarch._actor.local.overtime import GIVE_UP_AFTER_S
from monarch._actor.mesh_root import Subject
from monarch._actor.pickling import dumps, dumps_arguments
from monarch._actor.ports import passing
from monarch._actor.shape import Extent
from monarch._actor.timers import timers
from monarch._actor.wakeups import callback_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from monarch._actor.actor_mesh import ActorMesh, ActorMeshRoot
    from monarch._actor.context import Context, CreatorInstance
    from monarch._actor.failure import MeshFailure
    from monarch._actor.host_mesh import HostMesh, HostMeshRoot
    from monarch._actor.hosts.commands import Command
    from monarch._actor.local.actor import LocalActor
    from monarch._actor.local.controllers import Controllers
    from monarch._actor.local.owner import Owner
    from monarch._actor.mesh_root import MeshRoot
    from monarch._actor.proc_mesh import ProcMesh, ProcMeshRoot
    from monarch._actor.recovery.policy import RestartPolicy

DONE, _ = dumps(None)

# The server never blocks for long: this only bounds what a bug in it can do.
_HEARING_S = 1.0


def actor_stop_s() -> float:
    """How long the stop of an actor may take. Its own process ends it long before, unless that is frozen itself."""
    allowed = ("stop_grace_period", "stop_actor_timeout", "cleanup_timeout")
    return sum(map(settings.seconds, allowed)) + 4 * GIVE_UP_AFTER_S


class Process:
    """A client or a worker: its runtime, its actors, and the server that makes and ends them."""

    def __init__(self, runtime: _native.Runtime, host_mesh: HostMesh, proc_mesh: ProcMesh) -> None:
        self.runtime = runtime
        self.host_mesh = host_mesh
        self.proc_mesh = proc_mesh
        self.identity = ProcId(runtime.mesh, runtime.rank, proc_mesh._root.name)
        self.pid = os.getpid()
        self.ownership = _native.Ownership(runtime)
        self.spawned_by: tuple[bytes, int] | None = None  # in a worker: the process of who owns it
        self.root: Owner | None = None  # the program itself, in a client
        self.root_context: Context | None = None
        self.controllers: Controllers | None = None  # in a client, once one was asked for
        self.actors: dict[bytes, LocalActor] = {}
        self.leaving: set[LocalActor] = set()  # those that have ended, until whoever waits for that was told
        self._places = threading.Lock()  # held while an actor takes the place of one that ended
        self.bootstrap_error: BaseException | None = None
        self.unhandled: MeshFailure | None = None  # in IPython: to be raised at the next wait
        self.ending = False
        self._server: int | None = None  # the thread of `serve`
        self._loops_prepared = False  # whether new workers have event loops loaded

    # --- who runs where -----------------------------------------------------------------------------------------------

    def default_context(self) -> Context:
        """The context of a thread that inherited none: the program's own in a client."""
        if self.root_context is not None:
            return self.root_context
        raise RuntimeError(
            "no actor is running in this thread, nor did one start it by `threading` or an executor; give it the "
            "context of an actor, as in `contextvars.copy_context().run(function)`"
        )

    def default_sender(self) -> bytes:
        """Who sends from a thread that inherited no context."""
        return self.root.actor if self.root is not None else _native.PROCESS_ACTOR

    def owners(self) -> Iterator[Owner]:
        if self.root is not None:
            yield self.root
        if self.controllers is not None:
            yield self.controllers
        yield from list(self.actors.values())

    # --- making and ending meshes -------------------------------------------------------------------------------------

    def spawn_proc_mesh(
        self,
        host: HostMesh,
        extent: Extent,
        name: str,
        bootstrap: Callable[[], Any] | None,
        commands: list[Command],
    ) -> ProcMesh:
        """Start a process for each point of `extent`; they belong to the actor that runs here."""
        from monarch._actor.proc_mesh import ProcMesh, ProcMeshRoot

        self._check_open("start processes")
        owner = context().actor_instance._owner
        root = ProcMeshRoot(_native.new_id(), name, extent.region, host)
        procs = ProcMesh(root, root.region, owned=True)
        spawner = self.runtime.mesh, self.runtime.rank
        welcome = launch.welcome(procs, spawner, bootstrap, is_bound=any(prefix for prefix, *_ in commands))
        owner.proc_meshes[root.mesh] = root
        self.ownership.spawn_procs(owner.actor, root.mesh, extent.nelements)
        try:
            self.runtime.spawn_procs(
                root.mesh,
                name,
                extent.nelements,
                owner.actor,
                commands,
                logs.options(),
                launch.variant(),
                welcome,
                host._identities(),
            )
        except BaseException:
            del owner.proc_meshes[root.mesh]
            self.ownership.forget(root.mesh)
            raise
        proc_mesh_hooks.spawned(procs)
        return procs

    def spawn_actor_mesh(
        self,
        procs: ProcMesh,
        name: str,
        actor_class: type,
        parameters: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        policy: RestartPolicy | None,
    ) -> ActorMesh:
        """Make an actor in each process of `procs`; they belong to the actor that runs here."""
        from monarch._actor.actor_mesh import ActorMeshRoot, mesh_of

        self._check_open(f"spawn {name!r}")
        self._loops_prepared = self._loops_prepared or launch.prepare_for(actor_class, self.runtime)
        instance = context().actor_instance
        owner = instance._owner
        passing.forget()
        payload, buffers = dumps_arguments(name, ("Class", *parameters), (actor_class, *args), kwargs)
        root = ActorMeshRoot(_native.new_id(), procs, name, actor_class)
        root.carried = passing.carry(root, root.region.ranks())
        address = (self.runtime.mesh, self.runtime.rank, owner.actor)
        descriptor = requests.spawn(root.actor, name, procs, instance.as_creator(), address)
        if policy is not None:
            from monarch._actor.recovery.restarter import Restarter

            root.restarter = Restarter(owner, root, policy)
        owner.actor_meshes[root.actor] = root
        self.ownership.spawn_actors(owner.actor, root.actor, procs._root.mesh, root.region.ranks())
        procs._root.actors.add(root)
        root.request = payload, buffers
        root.spawned = procs._targets().call(owner.actor, descriptor, payload, buffers)
        return mesh_of(root, root.region, owned=True)

    def _check_open(self, what: str) -> None:
        raise_unhandled_failure()
        if self.root is not None and self.runtime.closed:
            raise RuntimeError(f"cannot {what}: the program has shut its client down, and there is no second one")

    def respawn_actor_mesh(self, root: ActorMeshRoot, positions: tuple[int, ...], only_ended: bool) -> Future[None]:
        """Run the constructor again at some positions of a mesh that an actor of this process owns."""
        owner = self._owner_of(root)
        if owner is None or root.request is None:
            raise RuntimeError(f"cannot respawn {root.name!r}: its owner has ended")
        self.hear()
        base_ranks = [root.region.base_rank(position) for position in positions]
        life = self.ownership.respawn_actors(root.actor, root.procs._root.mesh, base_ranks)
        if life is None:
            raise RuntimeError(f"cannot respawn {root.name!r}: it was stopped")
        for rank in base_ranks:
            root.failed.pop(rank, None)
        targets = _native.Targets(self.runtime, root.procs._root.mesh, base_ranks, _native.PROCESS_ACTOR)
        descriptor = requests.respawn(
            root.actor,
            root.name,
            root.procs,
            owner.instance.as_creator(),
            (self.runtime.mesh, self.runtime.rank, owner.actor),
            positions,
            only_ended,
            life,
        )
        replies = targets.call(owner.actor, descriptor, *root.request)
        for channel in root.carried:
            turns = channel()
            if turns is not None:
                turns.carry(root, tuple(base_ranks))
        subject = Subject(f"{root.name}.respawn", Extent(("respawned",), (len(positions),)), root)
        return Future._of(replies, len(positions), answered_by_all, subject)

    def respawn_proc_mesh(self, root: ProcMeshRoot, positions: tuple[int, ...] | None) -> Future[None]:
        """Start processes at some positions of a mesh again, or wherever one is dead."""
        base_ranks = None if positions is None else [root.region.base_rank(position) for position in positions]
        replies = self.runtime.respawn_procs(root.mesh, base_ranks)
        extent = Extent(("respawned",), (replies.expected,))
        subject = Subject(f"{root.name}.respawn", extent, root, "starting processes")
        return Future._of(replies, replies.expected, _respawned, subject)

    def stop_actor_mesh(self, root: ActorMeshRoot, reason: str) -> Future[None]:
        """Tell all actors of a mesh to end; the same future for every caller."""
        if root.stopping is None:
            if root.stopped is None:
                root.stopped = reason
            owner = self._owner_of(root)
            caller = owner.actor if owner else _native.PROCESS_ACTOR
            targets, request = root.procs._targets(), requests.stop(root.actor, reason)
            replies = targets.call(caller, request, b"", fail_fast=False)
            targets.tell_successors(caller, request, b"")
            subject = Subject(f"{root.name}.stop", root.region.extent, root)
            root.stopping = Future._of(replies, len(root.region), _stopped, subject, quiet=True)
            if owner is not None:
                self._disown(owner, root)
            timer = timers().after(actor_stop_s(), lambda: self._end_frozen(root.procs, replies, root.name))
            callback_thread().when_ready(replies, replies.expected, timer.cancel)
        return root.stopping

    def _end_frozen(self, procs: ProcMesh, replies: _native.Replies, name: str) -> None:
        """Kill the processes that have not even answered a stop: they are stopped, or something in them blocks all."""
        mesh, ranks = procs._root.mesh, procs._region.ranks()
        for position in () if self.ending else replies.pending():
            if (mesh, ranks[position]) != (self.runtime.mesh, self.runtime.rank):
                self.runtime.kill_for_stop(mesh, ranks[position], f"it did not answer the stop of its actor {name}")

    def give_up(self, actor: LocalActor) -> None:
        """An actor does not end: end this process, or, where it is the program's own, go on without the actor."""
        reason = f"its actor {actor.name} did not end when it was stopped"
        if self.root is None:
            self.runtime.kill_for_stop(self.runtime.mesh, self.runtime.rank, reason)
            return
        if not self.ending:
            where = "it lives in the program's own process, so its thread is abandoned"
            print(f"monarch: {reason}; {where}", file=sys.stderr)
        actor.abandon()

    def stop_proc_mesh(self, root: ProcMeshRoot, reason: str) -> Future[None]:
        """Tell all processes of a mesh to end; the same future for every caller."""
        if root.stopping is None:
            root.note_stopped(reason)
            replies = self.runtime.stop_procs(root.mesh, reason, settings.seconds("process_exit_timeout"))
            subject = Subject(f"{root.name}.stop", root.region.extent, root)
            root.stopping = Future._of(replies, 1, self._gone_in_order, subject, quiet=True)
            for owner in self.owners():
                owner.proc_meshes.pop(root.mesh, None)
                for actors in [a for a in list(owner.actor_meshes.values()) if a.procs._root is root]:
                    self._disown(owner, actors)
            self.ownership.forget(root.mesh)
        return root.stopping

    def _gone_in_order(self, subject: Subject, replies: _native.Replies) -> None:
        """The result of a stop of processes: they are gone; the first exception of a `__cleanup__` there is raised."""
        self.hear()  # what they said before their end
        procs: Any = subject.root
        if procs.cleanup_failure is not None:
            raise remote_error(f"Actor call {subject.label} failed.", *unpack_exception(*procs.cleanup_failure))

    def cleanup_failed(self, error: Exception) -> None:
        """A `__cleanup__` raised as this process ended: whoever spawned it may have stopped it, and wants to know."""
        if self.ending and self.spawned_by is not None:
            mesh, rank = self.spawned_by
            owner = _native.Targets(self.runtime, mesh, [rank], _native.PROCESS_ACTOR)
            owner.cast(_native.PROCESS_ACTOR, requests.cleanup_failed(self.runtime.mesh), *pack_exception(error))

    def _disown(self, owner: Owner, root: ActorMeshRoot) -> None:
        owner.actor_meshes.pop(root.actor, None)
        self.ownership.forget(root.actor)

    def change_logs(self, root: ProcMeshRoot, shown: bool | None, window_s: float, level: int) -> Future[None]:
        """Show the output of the processes of a mesh otherwise, and let them log from another level on."""
        self.runtime.change_logs(root.mesh, shown, window_s, level)
        targets = root.reference()._targets()
        replies = targets.call(self.default_sender(), requests.set_log_level(level), b"", fail_fast=False)
        subject = Subject(f"{root.name}.logging_option", root.region.extent, root)
        return Future._of(replies, len(root.region), _gone, subject, quiet=True)

    def release_hosts(self, root: HostMeshRoot, exit: bool) -> Future[None]:
        """End everything on attached hosts, and with `exit` their programs; the same future for every caller."""
        if root.stopping is None:
            root.stopped = "shut down" if exit else "stopped"
            identities = {identity for identity, _ in root.hosts}
            for owner in self.owners():
                for procs in list(owner.proc_meshes.values()):
                    if identities.issuperset(procs.host._identities()):
                        procs.note_stopped(f"its hosts were {root.stopped}")
            replies = self.runtime.release_hosts(sorted(identities), exit, settings.seconds("process_exit_timeout"))
            subject = Subject(f"{root.name}.{'shutdown' if exit else 'stop'}", root.region.extent, root)
            root.stopping = Future._of(replies, 1, _gone, subject, quiet=True)
        return root.stopping

    def _owner_of(self, root: ActorMeshRoot) -> Owner | None:
        return next((owner for owner in self.owners() if root.actor in owner.actor_meshes), None)

    # --- the server ---------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Serve requests to this process until it should end."""
        self._server = get_ident()
        mailbox = self.runtime.process_mailbox
        while (message := mailbox.recv()) is not None:
            try:
                self._handle(message)
            except Exception as error:
                _report_internal_error(error)
                message.reply(_native.STATUS_ERROR, *pack_exception(error))
            del message

    def hear(self) -> None:
        """Take in the news that wait for the server's thread, so that what is done next comes after them.

        The death of a process is known here to whoever looks for it before its owner has been told. An actor that took
        the place of the dead one meanwhile would have the death reported as something of the past, to the wrong mesh.
        """
        if get_ident() != self._server and not self.runtime.closed:
            myself = _native.Targets(self.runtime, self.runtime.mesh, [self.runtime.rank], _native.PROCESS_ACTOR)
            myself.call(_native.PROCESS_ACTOR, requests.PING, b"").wait(1, _HEARING_S)

    def _handle(self, message: _native.Message) -> None:
        if message.status == _native.STATUS_DEATH:
            self._process_died(message)
        elif message.status == _native.STATUS_CALL:
            name, fields = requests.decode(message.descriptor)
            _HANDLERS[name](self, message, *fields)

    def _ping(self, message: _native.Message) -> None:
        if self.bootstrap_error is not None:
            message.reply(_native.STATUS_ERROR, *pack_exception(self.bootstrap_error))
        else:
            message.reply(_native.STATUS_VALUE, DONE)

    def _spawn(
        self,
        message: _native.Message,
        actor: bytes,
        name: str,
        procs: ProcMesh,
        creator: CreatorInstance,
        owner: tuple[bytes, int, bytes],
    ) -> None:
        self._make(message, message.rank, actor, name, procs, creator, owner, 0)

    def _respawn(
        self,
        message: _native.Message,
        actor: bytes,
        name: str,
        procs: ProcMesh,
        creator: CreatorInstance,
        owner: tuple[bytes, int, bytes],
        positions: tuple[int, ...],
        only_ended: bool,
        life: int,
    ) -> None:
        def make_in_its_place() -> None:
            # Also called on the thread of an actor that has just ended, beside the server's.
            with self._places:
                before = self.actors.get(actor)
                if before is None:
                    self._make(message, positions[message.rank], actor, name, procs, creator, owner, life)
            if before is not None and not before.goes_on_as(life, message, also_if_made=only_ended):
                before.be_succeeded(make_in_its_place)

        make_in_its_place()

    def _make(
        self,
        message: _native.Message,
        position: int,
        actor: bytes,
        name: str,
        procs: ProcMesh,
        creator: CreatorInstance,
        owner: tuple[bytes, int, bytes],
        life: int,
    ) -> None:
        from monarch._actor.local.actor import LocalActor
        from monarch._actor.local.python_logging import name_actors

        name_actors()
        local = LocalActor(self, actor, name, position, procs, creator, owner, life, message)
        if self.bootstrap_error is not None:
            local.refuse(self.bootstrap_error)
            return
        self.actors[actor] = local
        local.start()

    def _stop(self, message: _native.Message, actor: bytes, reason: str) -> None:
        local = self.actors.get(actor)
        if local is None:
            # In a process that took another's place it may never have been; what waits for it waits in vain.
            self.runtime.rule_out(actor, reason)
            message.reply(_native.STATUS_VALUE, DONE)
        else:
            local.stop(reason, message)

    def _set_log_level(self, message: _native.Message, level: int) -> None:
        import logging

        logging.getLogger().setLevel(level)
        message.reply(_native.STATUS_VALUE, DONE)

    def _controller(self, message: _native.Message, name: str) -> None:
        if self.controllers is None:
            from monarch._actor.local.controllers import Controllers

            self.controllers = Controllers(self)
        self.controllers.ask(message, name)

    def _cleanup_failed(self, message: _native.Message, mesh: bytes) -> None:
        from monarch._actor.proc_mesh import known_root

        root = known_root(mesh)
        if root is not None and root.cleanup_failure is None:
            root.cleanup_failure = message.payload, message.copy_buffers()

    def _child_failed(self, message: _native.Message, child: bytes, rank: int, life: int) -> None:
        told = self.ownership.actor_failed(child, rank, life)
        if told is not None:
            self._tell(told, child, rank, lambda root: _noted(root, rank, Cause.from_detail(message.payload)))

    def _process_died(self, message: _native.Message) -> None:
        death = message.death
        if death is None:
            return
        for owner, mesh in self.ownership.process_ended(death):
            self._tell(owner, mesh, death.rank, lambda root: Cause.of_death(death, root.processes))
        for local in list(self.actors.values()):
            if local.owner[:2] == (death.mesh, death.rank):
                local.stop("its owner's process ended", None)

    def _tell(self, actor: bytes, mesh: bytes, rank: int, cause: Callable[[MeshRoot], Cause]) -> None:
        """Let an owner in this process know that a member of a mesh of it failed."""
        owner = next((owner for owner in self.owners() if owner.actor == actor), None)
        root = owner.mesh(mesh) if owner is not None else None
        if owner is not None and root is not None:
            owner.child_died(root, cause(root), rank)

    # --- the end ------------------------------------------------------------------------------------------------------

    def end_actors(self, reason: str) -> None:
        """End all actors of this process in order, in bounded time; who hangs is interrupted, then left behind."""
        self.ending = True
        actors = list(self.actors.values())
        for local in actors:
            local.stop(reason, None)
        actors += self.leaving
        deadline = time.monotonic() + settings.seconds("cleanup_timeout")
        late = [local for local in actors if not local.told_of_end.wait(max(0.0, deadline - time.monotonic()))]
        for local in late:
            local.interrupt()
        for local in late:
            local.told_of_end.wait(0.2)


def _noted(root: MeshRoot, rank: int, cause: Cause) -> Cause:
    """The failure of an actor, which its mesh tells of from now on."""
    from monarch._actor.actor_mesh import ActorMeshRoot

    if isinstance(root, ActorMeshRoot):
        root.failed[rank] = cause.reason
    return cause


def _stopped(subject: Subject, replies: _native.Replies) -> None:
    """The result of a stop: who is dead already has stopped; an exception of a `__cleanup__` is raised."""
    if any(replies.message(i).status == _native.STATUS_ERROR for i in range(replies.arrived)):
        answered_by_all(subject, replies)


def _gone(subject: Subject, replies: _native.Replies) -> None:
    return None


def _respawned(subject: Subject, replies: _native.Replies) -> None:
    for message in map(replies.message, range(replies.arrived)):
        if message.status == _native.STATUS_ERROR:
            assert subject.root is not None, "processes are respawned in a mesh"
            raise RuntimeError(f"cannot respawn processes {subject.root.name!r}: {message.payload.decode()}")


def _report_internal_error(error: Exception) -> None:
    import traceback

    print(f"monarch: a request to process {os.getpid()} (thread {get_ident()}) failed", file=sys.stderr)
    traceback.print_exception(type(error), error, error.__traceback__)


_HANDLERS: dict[str, Callable[..., None]] = {
    "ping": Process._ping,
    "spawn": Process._spawn,
    "respawn": Process._respawn,
    "stop": Process._stop,
    "log level": Process._set_log_level,
    "child failed": Process._child_failed,
    "cleanup failed": Process._cleanup_failed,
    "controller": Process._controller,
}
