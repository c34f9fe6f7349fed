"""One thread that takes messages out of the mailboxes of channels which several threads or event loops wait for."""

from __future__ import annotations

import threading
from weakref import ref

from monarch._actor.thread_context import start_service
from monarch._native import Notifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.ports.turns import Turns


class Pump:
    """Tells queues that something came. A queue that nobody holds any more is forgotten."""

    def __init__(self) -> None:
        self._notifier = Notifier()
        self._queues: dict[int, ref[Turns]] = {}
        self._lock = threading.Lock()
        self._next = 0
        start_service(self._run, "monarch-channels")

    def watch(self, queue: Turns) -> int:
        """From now on tell `queue`; returns what `forget` wants."""
        with self._lock:
            self._next = token = self._next + 1
            self._queues[token] = ref(queue)
        queue.mailbox.notify(self._notifier, token)
        return token

    def forget(self, token: int) -> None:
        self._queues.pop(token, None)

    def _run(self) -> None:
        while True:
            for token in self._notifier.wait():
                found = self._queues.get(token)
                queue = found() if found is not None else None
                if queue is not None:
                    queue.look()
                del queue


_pump: Pump | None = None
_pump_lock = threading.Lock()


def pump() -> Pump:
    """The pump of this process, started at first need."""
    global _pump
    with _pump_lock:
        if _pump is None:
            _pump = Pump()
        return _pump
