"""Streams of calls with options: each rank is called by itself, and what is done first comes first."""

from __future__ import annotations

from _thread import allocate_lock

from monarch._actor.promise import Promise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from monarch._actor.endpoint import Endpoint
    from monarch._actor.future import Future


class Arrivals:
    """Futures in the order in which others are done. With `fail_fast` the first error is that of all later ones."""

    def __init__(self, endpoint: Endpoint[..., Any], calls: Sequence[Future[Any]], fail_fast: bool) -> None:
        self._calls = calls
        self._fail_fast = fail_fast
        self._lock = allocate_lock()
        self._arrived = 0
        self._promises: list[Promise[Any]] = [Promise(_nothing) for _ in calls]
        self._futures = [promise.future(endpoint) for promise in self._promises]
        for call in calls:
            call.add_done_callback(self._arrive)

    def __call__(self, index: int) -> Future[Any]:
        return self._futures[index]

    def _arrive(self, call: Future[Any]) -> None:
        with self._lock:
            if self._arrived == len(self._promises):
                return
            promise = self._promises[self._arrived]
            error = call.exception(0)
            rest = self._promises[self._arrived + 1 :] if error is not None and self._fail_fast else []
            self._arrived += 1 + len(rest)
        promise.settle(call.get)
        if error is not None:
            for later in rest:
                later.fail(error)
        if rest:
            for other in self._calls:
                other.cancel()


def _nothing() -> None:
    pass
