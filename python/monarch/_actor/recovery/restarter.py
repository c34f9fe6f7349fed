"""`Restarter`: makes the members of one mesh again, where they failed, by a policy."""

from __future__ import annotations

import threading
import time

from monarch import _native
from monarch._actor.causes import Cause
from monarch._actor.recovery.policy import RestartBudget
from monarch._actor.thread_context import start_service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.actor_mesh import ActorMeshRoot
    from monarch._actor.local.owner import Owner
    from monarch._actor.recovery.policy import RestartPolicy


# Meshes that share processes may learn of a death together: one of them replaces the process.
_replacing_processes = threading.Lock()


class Restarter:
    """Stands between the failures of an actor mesh and its owner, who is told of what the policy does not allow.

    Failures are handled on a thread that lives while there are any; those that come while a restart waits for its
    turn are part of it. A constructor that fails again is simply the next failure.
    """

    def __init__(self, owner: Owner, root: ActorMeshRoot, policy: RestartPolicy) -> None:
        self._owner = owner
        self._root = root
        self._policy = policy
        self._budget = RestartBudget(policy)
        self._lock = threading.Lock()
        self._failed: dict[int, Cause] = {}  # by process rank
        self._running = False
        self.gave_up = False  # a failure went upwards

    def child_died(self, cause: Cause, rank: int) -> None:
        """A member is dead. Called by the server thread; does not block."""
        with self._lock:
            self._failed.setdefault(rank, cause)
            if self._running:
                return
            self._running = True
        start_service(self._run, f"monarch-restart-{self._root.name}")

    def _run(self) -> None:
        while self._has_failures():
            delay = self._budget.spend(time.monotonic())
            if delay is None:
                policy = self._policy
                self._give_up(
                    self._take(),
                    f"the restart policy of {self._root.name!r} is exhausted "
                    f"({policy.max_restarts} restarts within {policy.window_s:g} s)",
                )
            else:
                time.sleep(delay)
                self._restart(self._take())

    def _has_failures(self) -> bool:
        with self._lock:
            self._running = bool(self._failed)
            return self._running

    def _take(self) -> dict[int, Cause]:
        with self._lock:
            failed, self._failed = self._failed, {}
            return failed

    def _put_back(self, failed: dict[int, Cause]) -> None:
        with self._lock:
            self._failed = {**failed, **self._failed}

    def _restart(self, failed: dict[int, Cause]) -> None:
        if self._is_over:
            return
        try:
            replaced = self._replace_dead_processes()
            # Deaths that were seen there have been told by now: they are part of this restart.
            self._owner.process.hear()
            failed |= self._take()
            # Who died since then was not replaced, so no actor can be made there: that is the next restart.
            dead = set(self._dead_processes())
            self._put_back({rank: failed[rank] for rank in dead & failed.keys()})
            self._make_actors({*failed, *replaced} - dead)
        except Exception as error:
            self._give_up(failed, f"{self._root.name!r} could not be restarted: {error}")

    def _replace_dead_processes(self) -> list[int]:
        """Put new processes in the place of dead ones; returns their ranks."""
        procs = self._root.procs._root
        with _replacing_processes:
            dead = self._dead_processes()
            if dead:
                if procs.mesh not in self._owner.proc_meshes:
                    raise RuntimeError(f"its processes {procs.name!r} belong to another actor, which has to do it")
                self._owner.process.respawn_proc_mesh(procs, tuple(dead)).get()
        return dead

    def _dead_processes(self) -> list[int]:
        """The ranks of processes that are dead now."""
        ranks = [self._root.region.base_rank(position) for position in range(len(self._root.region))]
        runtime, mesh = self._owner.process.runtime, self._root.procs._root.mesh
        deaths = _native.Targets(runtime, mesh, ranks, _native.PROCESS_ACTOR).deaths()
        return [ranks[position] for position, _ in deaths]

    def _make_actors(self, ranks: set[int]) -> None:
        if not ranks:
            return
        region = self._root.region
        everything = range(len(region))
        all_for_one = self._policy.strategy == "all_for_one"
        positions = tuple(p for p in everything if all_for_one or region.base_rank(p) in ranks)
        made = self._owner.process.respawn_actor_mesh(self._root, positions, only_ended=not all_for_one)
        # A constructor that raises is told to the owner like any failure, so nobody has to look at it here.
        made.add_done_callback(lambda future: future.exception(0))

    def _give_up(self, failed: dict[int, Cause], why: str) -> None:
        if self._is_over:
            return
        self.gave_up = True
        for rank, cause in failed.items():
            self._owner.tell(self._root, cause.explained(why), rank)

    @property
    def _is_over(self) -> bool:
        owner = self._owner
        return self._root.stopped is not None or self._root.actor not in owner.actor_meshes or owner.process.ending
