"""`ElasticPool`: interchangeable actors that share work; a member that dies loses none of it."""

from __future__ import annotations

import threading
from collections import deque

from monarch._actor.answers import answer_of_one
from monarch._actor.context import sender
from monarch._actor.endpoint import Endpoint
from monarch._actor.errors import SupervisionError
from monarch._actor.generics import Generic, TypeVar
from monarch._actor.promise import Promise
from monarch._actor.recovery.policy import RestartPolicy
from monarch._actor.recovery.revival import Revival
from monarch._actor.wakeups import callback_thread
from monarch._native import STATUS_DEAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from monarch._actor.future import Future
    from monarch._actor.proc_mesh import ProcMesh
    from monarch._native import Replies

T = TypeVar("T")

# How many members a piece of work may see die, before it is taken to be what kills them.
MAX_DEATHS = 3


class ElasticPool(Generic[T]):
    """One actor of `Class(*args, **kwargs)` in each process of `procs`, each restarted by `policy`.

    `submit` gives work to the member that has the least. What a member had when it died is given to others, so it may
    be done twice; work that sees several members die fails with the `SupervisionError`. Belongs to the actor that makes
    it, as its meshes do: a member that the policy gives up is a failure of that owner, and no longer in the pool.
    Raises what `ProcMesh.spawn` raises.
    """

    def __init__(
        self, procs: ProcMesh, Class: type[T], *args: Any, policy: RestartPolicy | None = None, **kwargs: Any
    ) -> None:
        self._actor_class = Class
        self._arguments = args, kwargs
        self._policy = policy or RestartPolicy()
        self._host = next(iter(procs._root.host))
        self._lock = threading.Lock()
        self._waiting: deque[_Work] = deque()  # while no member can take any
        self._free = list(procs)[::-1]  # processes without a member, the next one last
        self._members: list[_Member] = []
        self._stopped: str | None = None
        self.resize(len(procs))

    def __len__(self) -> int:
        """How many members take work, those that are being restarted included."""
        return len(self._members)

    def submit(self, endpoint_name: str, *args: Any, **kwargs: Any) -> Future[Any]:
        """Let a member run an endpoint. Raises `AttributeError` for one it lacks, `TypeError` for wrong arguments.

        The future raises what the endpoint raises, or `SupervisionError` where no member is left. Raises
        `RuntimeError` when the pool was stopped.
        """
        with self._lock:
            if self._stopped is not None:
                raise RuntimeError(f"the pool of {self._actor_class.__qualname__} was stopped: {self._stopped}")
            if not self._members:
                raise SupervisionError(self._no_member_left)
            member = self._members[0]
        endpoint = member.endpoint(endpoint_name)
        work = _Work(endpoint_name, *endpoint._pack(args, kwargs))
        future = work.promise.future(endpoint)
        self._give(work)
        return future

    def map(self, endpoint_name: str, *arguments: Iterable[Any]) -> Iterator[Any]:
        """Submit the endpoint for all (the first of each, the second of each, …) at once; iterate over the results."""
        futures = [self.submit(endpoint_name, *args) for args in zip(*arguments)]
        return (future.get() for future in futures)

    def resize(self, n: int) -> None:
        """Have `n` members, at least 1, from now on. Returns at once.

        New ones live in processes of `procs` that have none, then in new processes on the host of the first. Members
        that go, the newest first, complete the work that they have. To be called by the actor that made the pool.
        """
        if n < 1:
            raise ValueError(f"a pool needs at least 1 member, not {n}; `stop` ends it")
        if self._stopped is not None:
            raise RuntimeError(f"the pool of {self._actor_class.__qualname__} was stopped: {self._stopped}")
        while len(self._members) < n:
            self._grow()
        with self._lock:
            leaving, self._members = self._members[n:], self._members[:n]
            for member in leaving:
                member.leaving = True
            idle = [member for member in leaving if member.load == 0]
        for member in idle:
            self._dismiss(member)
        self._give_waiting()

    def stop(self, reason: str = "stopped by its owner") -> None:
        """End the members and the processes that the pool started; waits for both. Work that is not done fails.

        Raises the first exception of a `__cleanup__`.
        """
        with self._lock:
            if self._stopped is not None:
                return
            self._stopped = reason
            members, self._members = self._members, []
            waiting, self._waiting = self._waiting, deque()
        for work in waiting:
            work.fail(f"the pool of {self._actor_class.__qualname__} was stopped: {reason}")
        stops = [member.stop(reason) for member in members]
        errors = [error for error in [stop.exception() for stop in stops] if error is not None]
        if errors:
            raise errors[0]

    def _grow(self) -> None:
        args, kwargs = self._arguments
        slot = self._free.pop() if self._free else None
        own = self._host.spawn_procs(name="pool") if slot is None else None
        procs = own or slot
        assert procs is not None, "either there is a slot or processes were made"
        actor = procs.supervised(self._policy).spawn("pool", self._actor_class, *args, **kwargs)
        with self._lock:
            self._members.append(_Member(actor, slot, own))

    def _dismiss(self, member: _Member) -> None:
        """End a member that is no longer in the pool."""
        member.stop("the pool shrank")
        if member.slot is not None:
            self._free.append(member.slot)

    # --- work ---------------------------------------------------------------------------------------------------------

    def _give(self, work: _Work) -> None:
        if work.promise.settled:  # cancelled while it waited
            return
        with self._lock:
            able = [member for member in self._members if member.alive]
            if not able and self._members:
                self._waiting.append(work)
                return
            member = min(able, key=lambda member: member.load) if able else None
            if member is not None:
                member.load += 1
        if member is None:
            work.fail(self._no_member_left)
        else:
            replies = work.send_to(member)
            callback_thread().when_ready(replies, 1, lambda: self._answered(member, work, replies))

    def _answered(self, member: _Member, work: _Work, replies: Replies) -> None:
        died = replies.arrived > 0 and replies.message(0).status == STATUS_DEAD
        with self._lock:
            member.load -= 1
            ask_again = died and member.alive
            member.alive = member.alive and not died
            dismissed = member.leaving and member.load == 0
        if dismissed:
            self._dismiss(member)
        elif ask_again and not member.leaving:
            Revival(member.targets, work.sender, member.is_given_up, lambda alive: self._revived(member, alive))
        if died and work.deaths < MAX_DEATHS and self._stopped is None:
            work.deaths += 1
            self._give(work)
        else:
            work.settle(member, replies)

    def _revived(self, member: _Member, alive: bool) -> None:
        with self._lock:
            member.alive = alive
            if not alive and member in self._members:
                self._members.remove(member)
        if not alive:
            member.stop("the pool gave it up")
        self._give_waiting()

    def _give_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for work in waiting:
            self._give(work)

    @property
    def _no_member_left(self) -> str:
        return (
            f"the pool of {self._actor_class.__qualname__} has no member left: the restart policies of all of them are "
            "exhausted; `resize` makes new ones"
        )

    def __repr__(self) -> str:
        return f"<ElasticPool of {len(self)} {self._actor_class.__qualname__}>"


class _Member:
    """An actor of the pool, in a process of the given ones (`slot`) or one that the pool made (`own`)."""

    def __init__(self, actor: Any, slot: ProcMesh | None, own: ProcMesh | None) -> None:
        self.actor = actor
        self.slot = slot
        self.own = own
        self.targets = actor._addressed()
        self.load = 0  # pieces of work that it has
        self.alive = True  # as far as is known
        self.leaving = False

    def endpoint(self, name: str) -> Endpoint[..., Any]:
        found = getattr(self.actor, name)
        if not isinstance(found, Endpoint):
            raise AttributeError(f"{name!r} of {self.actor!r} is no endpoint")
        return found

    def is_given_up(self) -> bool:
        root = self.actor._root
        return root.stopped is not None or root.restarter.gave_up

    def stop(self, reason: str) -> Future[None]:
        stopped: Future[None] = (self.own or self.actor).stop(reason)
        return stopped


class _Work:
    """One call on its way through the pool."""

    def __init__(self, name: str, payload: bytes, buffers: Any) -> None:
        self.name = name
        self.sender = sender()
        self.deaths = 0  # of members that had it
        self.promise: Promise[Any] = Promise(self._withdraw)
        self._message = payload, buffers

    def send_to(self, member: _Member) -> Replies:
        endpoint = member.endpoint(self.name)
        replies: Replies = member.targets.call(self.sender, endpoint._descriptor, *self._message)
        self.promise.replies = replies
        if self.promise.settled:
            replies.cancel()
        return replies

    def settle(self, member: _Member, replies: Replies) -> None:
        endpoint = member.endpoint(self.name)
        self.promise.settle(lambda: answer_of_one(endpoint, replies))

    def fail(self, text: str) -> None:
        self.promise.fail(SupervisionError(text))

    def _withdraw(self) -> None:
        if self.promise.replies is not None:
            self.promise.replies.cancel()
