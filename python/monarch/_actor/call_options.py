"""`Endpoint.options`: calls with a time limit, with an early error, or that are repeated where an actor failed."""

from __future__ import annotations

import time

from monarch._actor.answers import answer_of_one, answers_of_all, answers_until_an_error
from monarch._actor.context import sender
from monarch._actor.future import Future
from monarch._actor.generics import Generic, ParamSpec, TypeVar
from monarch._actor.promise import Promise
from monarch._actor.timers import timers
from monarch._actor.wakeups import callback_thread
from monarch._native import STATUS_DEAD, STATUS_VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch._actor.endpoint import Endpoint, ValueStream
    from monarch._actor.timers import Timer
    from monarch._actor.value_mesh import ValueMesh
    from monarch._native import Replies

P = ParamSpec("P")
R = TypeVar("R")

# How long a repetition waits for dead actors to be made again: the longest pause of the default restart policy.
REVIVAL_S = 10.0


class EndpointWithOptions(Generic[P, R]):
    """What `Endpoint.options` returns: the adverbs with options."""

    __slots__ = ("_endpoint", "_fail_fast", "_retry", "_timeout")

    def __init__(self, endpoint: Endpoint[P, R], timeout: float | None, fail_fast: bool, retry: int) -> None:
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ValueError(f"timeout is {timeout}: it has to be a positive, finite number of seconds, or None")
        if retry < 0:
            raise ValueError(f"retry is {retry}: it has to be at least 0")
        self._endpoint = endpoint
        self._timeout = timeout
        self._fail_fast = fail_fast
        self._retry = retry

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Future[ValueMesh[R]]:
        """`Endpoint.call` with these options."""
        targets = self._endpoint._targets
        decode = answers_until_an_error if self._fail_fast else answers_of_all
        return self._begin(targets.call, len(targets), decode, args, kwargs)

    def call_one(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """`Endpoint.call_one` with these options."""
        self._endpoint._check_is_one()
        return self._begin(self._endpoint._targets.call, 1, answer_of_one, args, kwargs)

    def choose(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """`Endpoint.choose` with these options. A repetition goes to another actor."""
        endpoint = self._endpoint
        asked: set[int] = set()

        def send(*message: Any) -> Replies:
            position = endpoint._pick(asked)
            asked.add(position)
            return endpoint._targets.call_at(position, *message)

        return self._begin(send, 1, answer_of_one, args, kwargs, elsewhere=len(endpoint._targets) > 1)

    def stream(self, *args: P.args, **kwargs: P.kwargs) -> ValueStream[R]:
        """`Endpoint.stream` with these options: each rank has its own time limit and repetitions.

        With `fail_fast` the first error is also that of all answers after it, and the calls that still run are
        cancelled. Raises `TypeError` for a generator, whose values come one by one.
        """
        from monarch._actor.endpoint import ValueStream
        from monarch._actor.option_stream import Arrivals

        endpoint, targets = self._endpoint, self._endpoint._targets
        if endpoint._generates:
            raise TypeError(f"{endpoint.label} is a generator: its stream has no options")
        packed = endpoint._pack(args, kwargs)

        def call_at(position: int) -> Future[R]:
            return self._send(lambda *message: targets.call_at(position, *message), 1, answer_of_one, packed)

        calls = [call_at(position) for position in range(len(targets))]
        return ValueStream(endpoint.label, len(calls), Arrivals(endpoint, calls, self._fail_fast))

    def broadcast(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """`Endpoint.broadcast`: nobody waits, so that the options have nothing to act on."""
        self._endpoint.broadcast(*args, **kwargs)

    def _begin(
        self,
        send: Callable[..., Replies],
        count: int,
        decode: Callable[[Endpoint[P, R], Replies], Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        elsewhere: bool = False,
    ) -> Future[Any]:
        return self._send(send, count, decode, self._endpoint._pack(args, kwargs), elsewhere)

    def _send(
        self,
        send: Callable[..., Replies],
        count: int,
        decode: Callable[[Endpoint[P, R], Replies], Any],
        packed: tuple[bytes, Any],
        elsewhere: bool = False,
    ) -> Future[Any]:
        endpoint = self._endpoint
        payload, buffers = packed
        if endpoint.root.stopped is not None:
            return Future._now(endpoint.root.raise_stopped, endpoint)
        me = sender()
        call = _Call(
            endpoint,
            me,
            lambda: send(me, endpoint._descriptor, payload, buffers),
            count,
            lambda replies: decode(endpoint, replies),
            self._fail_fast,
            self._retry,
            elsewhere,
        )
        return call.begin(self._timeout)

    def __repr__(self) -> str:
        options = f"timeout={self._timeout}, fail_fast={self._fail_fast}, retry={self._retry}"
        return f"{self._endpoint!r} with {options}"


class _Call:
    """One call on its way: answers come on the callback thread, deadlines and repetitions on that of the timers."""

    def __init__(
        self,
        endpoint: Endpoint[..., Any],
        me: bytes,
        send: Callable[[], Replies],
        count: int,
        decode: Callable[[Replies], Any],
        fail_fast: bool,
        retry: int,
        elsewhere: bool,
    ) -> None:
        self._endpoint = endpoint
        self._me = me
        self._send = send
        self._count = count
        self._decode = decode
        self._first_look = 1 if fail_fast else count  # after how many answers to look for errors
        self._retries = retry
        self._elsewhere = elsewhere  # a repetition asks others, so it need not wait for who failed
        self._timer: Timer | None = None
        self._promise: Promise[Any] = Promise(self._withdraw)

    def begin(self, timeout: float | None) -> Future[Any]:
        self._attempt()
        if timeout is not None:
            self._timer = timers().after(timeout, lambda: self._expire(timeout))
        return self._promise.future(self._endpoint, to_own_mesh=self._me == self._endpoint.root.actor)

    def _attempt(self) -> None:
        replies = self._promise.replies = self._send()
        self._look(replies, self._first_look)
        if self._promise.settled:
            replies.cancel()  # settled before this could be withdrawn

    def _look(self, replies: Replies, arrived: int) -> None:
        callback_thread().when_ready(replies, arrived, lambda: self._answered(replies, arrived))

    def _answered(self, replies: Replies, arrived: int) -> None:
        if self._promise.settled:
            return
        statuses = {replies.message(i).status for i in range(replies.arrived)}
        if statuses == {STATUS_VALUE} and not replies.ready(self._count):
            self._look(replies, arrived + 1)
        elif STATUS_DEAD in statuses and self._retries and self._endpoint.root.stopped is None:
            self._retries -= 1
            self._repeat(replies)
        else:
            self._settle(replies)

    def _repeat(self, failed: Replies) -> None:
        """Call again once the actors are there again; the error stands where that takes too long."""
        if self._elsewhere:
            timers().after(0, self._attempt)
            return
        from monarch._actor.recovery.revival import Revival

        root = self._endpoint.root
        deadline = time.monotonic() + REVIVAL_S

        def hopeless() -> bool:
            return self._promise.settled or root.stopped is not None or time.monotonic() > deadline

        def then(alive: bool) -> None:
            if not alive:
                self._settle(failed)
            elif not self._promise.settled:
                timers().after(0, self._attempt)

        Revival(self._endpoint._targets, self._me, hopeless, then)

    def _settle(self, replies: Replies) -> None:
        decode = self._decode
        self._promise.settle(lambda: decode(replies))
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self, timeout: float) -> None:
        replies = self._promise.replies
        assert replies is not None, "the timer starts after the first attempt"
        waited: Future[Any] = Future._of(replies, self._count, answer_of_one, self._endpoint, quiet=True)
        # Withdrawn first: who has met the timeout may rely on it that the call does not begin any more.
        self._promise.fail(TimeoutError(waited._describe_timeout(timeout)), before=replies.cancel)

    def _withdraw(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._promise.replies is not None:
            self._promise.replies.cancel()
