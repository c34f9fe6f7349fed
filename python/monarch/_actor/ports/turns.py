"""Who gets which message of a channel.

Requests for messages stand in a queue; the first message is for the first request, and so on. A request takes its
message only when its value is asked for. So a request that is abandoned, times out or is cancelled just leaves the
queue, and its message is there for the next, in order.
"""

from __future__ import annotations

import time
from _thread import RLock
from collections import deque
from weakref import ref

from monarch import _native
from monarch._actor.context import process
from monarch._actor.errors import pack_exception
from monarch._actor.pickling import dumps
from monarch._actor.ports.liveness import PATIENCE_S, Liveness
from monarch._actor.ports.wire import END, GONE, PASSED, VALUE, WAKE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from monarch._actor.actor_mesh import ActorMeshRoot


# The answer to a sender that wants to hear of what nobody receives.
_TAKEN, _ = dumps(None)


class Turn:
    """One request for a message. To a `Future` it is the `Replies` that it waits for."""

    __slots__ = ("_turns", "messages", "place", "waiting")

    expected = 1
    arrived = 0  # errors of a channel are not reported when nobody asks for them

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.messages: list[_native.Message] | None = None  # once they are taken
        self.place: int | None = None  # while it is out of the queue
        self.place = turns.enter()
        self.waiting = 0  # how many observers wait, so that the time limit of one does not end the wait of another

    def ready(self, count: int) -> bool:
        return self._turns.is_served(self)

    def wait(self, count: int, timeout: float | None = None) -> bool:
        return self._turns.wait(self, timeout)

    def notify(self, count: int, notifier: _native.Notifier, token: int) -> None:
        self._turns.notify(self, notifier, token)

    def cancel(self) -> None:
        self._turns.cancel(self)

    def give_up(self) -> None:
        self._turns.give_up(self)

    def take(self) -> list[_native.Message]:
        return self._turns.take(self)

    def pending(self) -> list[int]:
        return []

    def __del__(self) -> None:
        if self.place is not None:
            self._turns.leave(self)


class Turns:
    """The messages of a channel that have arrived, and the requests that wait.

    A lone thread that blocks reads the mailbox itself, which is the shortest way. With a second observer, or one on an
    event loop, the pump takes over for good and tells each of them.
    """

    def __init__(self, mailbox: _native.Mailbox, channel: bytes, once: bool = False, batches: bool = False) -> None:
        """`once`: only the first message counts. `batches`: a request takes all messages that are there."""
        self.mailbox = mailbox
        self.channel = channel
        self._once = once
        self._used = False  # a once channel has had its message
        self._batches = batches
        # Reentrant: a collected request leaves the queue, and that may happen inside any allocation.
        self._lock = RLock()
        self._messages: deque[_native.Message] = deque()
        self._places: dict[int, _native.Replies | None] = {}  # in order; with what tells those who wait
        self._next_place = 0
        self._reader: int | None = None  # the place of the thread that reads the mailbox
        self._pumped: int | None = None
        self._end: _native.Message | None = None
        self._liveness: Liveness | None = None  # once its port has gone somewhere

    # --- the queue of requests ----------------------------------------------------------------------------------------

    def enter(self) -> int:
        with self._lock:
            if self._once and (self._places or (self._used and not self._messages)):
                raise ValueError("the channel was opened with once=True and its one message was asked for already")
            return self._append()

    def _append(self) -> int:
        self._next_place = place = self._next_place + 1
        self._places[place] = None
        return place

    def leave(self, turn: Turn) -> None:
        with self._lock:
            if turn.place is not None:
                self._places.pop(turn.place, None)
                turn.place = None
                self._tell_served()

    def cancel(self, turn: Turn) -> None:
        with self._lock:
            if turn.messages is not None or turn.place is None:
                return
            turn.messages = []
            signal, place = self._places[turn.place], turn.place
            self.leave(turn)
            if signal is not None:
                signal.complete()
            if place == self._reader:
                self._wake_reader()

    def is_served(self, turn: Turn) -> bool:
        """Whether a message is there for this request, which from now on has a place."""
        with self._lock:
            if turn.messages is not None:
                return True
            if turn.place is None:
                turn.place = self._append()
            if self._reaches(turn.place):
                return True
            if self._reader is not None:
                return False
            self._put(self.mailbox.drain())
            return self._reaches(turn.place)

    def take(self, turn: Turn) -> list[_native.Message]:
        """What a served request gets, the same for every observer."""
        with self._lock:
            if turn.messages is None:
                assert turn.place is not None, "only a request that is served takes"
                index = 0 if next(iter(self._places)) == turn.place else list(self._places).index(turn.place)
                del self._places[turn.place]
                turn.place = None
                turn.messages = self._pop(index)
                if self._batches:
                    self._tell_served()
            return turn.messages

    def _pop(self, index: int) -> list[_native.Message]:
        messages = self._messages
        if index >= len(messages):
            assert self._end is not None, "a request without a message is served by the end only"
            return [self._end]
        first = messages[index]
        del messages[index]
        taken = [first]
        while self._batches and messages and first.descriptor == VALUE == messages[0].descriptor:
            taken.append(messages.popleft())
        return taken

    def _served(self) -> int:
        """How many requests, from the first on, have something to take."""
        if self._end is not None:
            return len(self._places)
        return min(len(self._messages), 1) if self._batches else len(self._messages)

    def _reaches(self, place: int) -> bool:
        served = self._served()
        return served > 0 and (next(iter(self._places)) == place or place in list(self._places)[:served])

    # --- arrival ------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take in what has arrived. Whoever reads the mailbox does so himself."""
        with self._lock:
            if self._reader is None:
                self._put(self.mailbox.drain())

    def _put(self, messages: Iterable[_native.Message]) -> None:
        for message in messages:
            if message.expects_reply:
                message.reply(_native.STATUS_VALUE, _TAKEN)
            if message.descriptor == END:
                self._end = message
            elif message.descriptor == GONE:
                if self._senders().all_gone():
                    self._end = message
            elif message.descriptor == PASSED:
                self.escape(1)
            elif message.descriptor != WAKE and not self._used:
                self._messages.append(message)
                self._used = self._once
        self._tell_served()

    def _tell_served(self) -> None:
        served = self._served()
        if not served:
            return
        for place in list(self._places)[:served]:
            signal = self._places[place]
            if signal is not None:
                signal.complete()
            if place == self._reader:
                self._wake_reader()

    # --- waiting ------------------------------------------------------------------------------------------------------

    def wait(self, turn: Turn, timeout: float | None) -> bool:
        """Block until the request is served; False when `timeout` seconds passed first: then it leaves the queue."""
        if self.is_served(turn):
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            turn.waiting += 1
        left = timeout
        try:
            while not self.is_served(turn) and (left is None or left > 0):
                if self._is_unwatched():
                    self._wait_for_change(turn, PATIENCE_S if left is None else min(left, PATIENCE_S))
                    self._watch_senders(turn)
                else:
                    self._wait_for_change(turn, left)
                left = None if deadline is None else deadline - time.monotonic()
        except BaseException:
            self.give_up(turn)
            raise
        with self._lock:
            if self.is_served(turn):
                turn.waiting -= 1
                return True
            self.give_up(turn)
        self._watch_senders(turn)
        return False

    def give_up(self, turn: Turn) -> None:
        """One observer waits no longer. With the last one the request leaves the queue; another wait brings it back."""
        with self._lock:
            turn.waiting -= 1
            if turn.messages is None and turn.waiting <= 0:
                self.leave(turn)

    def _wait_for_change(self, turn: Turn, timeout: float | None) -> None:
        with self._lock:
            if turn.place is None or self._reaches(turn.place):
                return
            signal = None
            if self._reader is not None or self._pumped is not None:
                signal = self._signal(turn.place)
            else:
                self._reader = turn.place
        if signal is not None:
            signal.wait(1, timeout)
            return
        message: _native.Message | None = None
        try:
            message = self.mailbox.recv(timeout)
        finally:
            with self._lock:
                self._reader = None
                self._put([message] if message is not None else [])
                self._put(self.mailbox.drain())

    def notify(self, turn: Turn, notifier: _native.Notifier, token: int) -> None:
        with self._lock:
            turn.waiting += 1
            if self.is_served(turn) or turn.place is None:
                notifier.push(token)
                return
            self._signal(turn.place).notify(1, notifier, token)
            unwatched = self._is_unwatched()
        if unwatched:
            from monarch._actor.timers import timers

            timers().after(PATIENCE_S, _weakly(self, Turns.watch_senders))

    def _signal(self, place: int) -> _native.Replies:
        """What is complete once this request is served."""
        found = self._places[place]
        if found is None:
            found = self._places[place] = _native.Replies()
        if self._pumped is None:
            from monarch._actor.ports.pump import pump

            self._pumped = pump().watch(self)
            if self._reader is not None:
                self._wake_reader()
        return found

    def _wake_reader(self) -> None:
        self._tell_itself(WAKE, b"")

    def _tell_itself(self, descriptor: bytes, payload: bytes) -> None:
        runtime = process().runtime
        me = _native.Targets(runtime, runtime.mesh, [runtime.rank], self.channel)
        me.cast(self.channel, descriptor, payload)

    # --- who may send -------------------------------------------------------------------------------------------------

    def give(self, root: ActorMeshRoot, ranks: tuple[int, ...]) -> None:
        """Only these actors will send."""
        self._senders().give(root, ranks)

    def carry(self, root: ActorMeshRoot, ranks: tuple[int, ...]) -> None:
        """The port goes to these actors."""
        with self._lock:
            self._senders().carry(root, ranks)
            self._take_end_back()

    def escape(self, times: int) -> None:
        """The port goes nobody knows where; a negative number takes that back."""
        with self._lock:
            self._senders().escape(times)
            self._take_end_back()

    def _senders(self) -> Liveness:
        if self._liveness is None:
            self._liveness = Liveness()
        return self._liveness

    def _take_end_back(self) -> None:
        if self._end is not None and self._end.descriptor == GONE and not self._senders().all_gone():
            self._end = None

    def _is_unwatched(self) -> bool:
        return self._liveness is not None and self._liveness.unwatched

    def _watch_senders(self, turn: Turn) -> None:
        if self._is_unwatched() and not self.is_served(turn):
            self.watch_senders()

    def watch_senders(self) -> None:
        """From now on learn of the ends of those who may send."""
        with self._lock:
            watches = self._senders().to_watch()
        for watch in watches:
            watch.begin(_weakly(self, Turns.look_for_senders))

    def look_for_senders(self) -> None:
        """Somebody who may send is gone; say so where that was the last one, behind what they have sent."""
        with self._lock:
            gone = self._senders().error() if self._senders().all_gone() else None
        if gone is not None:
            self._tell_itself(GONE, pack_exception(gone, bare=True)[0])

    def __del__(self) -> None:
        try:
            self.mailbox.close("stopped", "nobody receives from the channel any more")
            if self._pumped is not None:
                from monarch._actor.ports.pump import pump

                pump().forget(self._pumped)
            if self._liveness is not None:
                self._liveness.close()
        except (RuntimeError, AttributeError, ImportError, TypeError):
            pass  # a fork of the process, or an interpreter that ends


def _weakly(turns: Turns, method: Callable[[Turns], object]) -> Callable[[], object]:
    """A call of the method that does not keep the channel open."""
    known = ref(turns)

    def call() -> None:
        found = known()
        if found is not None:
            method(found)

    return call
