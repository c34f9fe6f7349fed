"""A message as a future of asyncio that holds nothing: who looks at it takes the message."""

from __future__ import annotations

import asyncio
from weakref import ref

from monarch._actor.wakeups import waits_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, TypeVar

    from monarch._actor.ports.receiver import Received

    A = TypeVar("A")


class MessageFuture(asyncio.Future):  # type: ignore[type-arg]
    """`recv().as_asyncio()`: done when its message is there, which is taken only when it is awaited or asked for.

    asyncio may give up a wait although what it waits for is done (`wait_for` does, from Python 3.12 on). A future that
    held the message would lose it then; this one is dropped, and the message is there for the next.
    """

    _token: int | None = None  # of the wait for the message, while that is not over

    def __init__(self, request: Received[A]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._request = request
        self._turn: Any = request._replies
        self._waits = waits_of(self.get_loop())
        me = ref(self)

        def arrived(_: object) -> None:
            future = me()
            if future is not None and not future.done():
                future.set_result(None)

        there = self.get_loop().create_future()
        there.add_done_callback(arrived)
        self._token = self._waits.when_ready(self._turn, 1, there)

    def result(self) -> Any:
        super().result()
        return self._request.get(timeout=0)

    def exception(self) -> BaseException | None:
        super().exception()
        return self._request.exception(0)

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._leave()
        return cancelled

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done():
            waiter = self.get_loop().create_future()
            self.add_done_callback(lambda _: None if waiter.done() else waiter.set_result(None))
            try:
                yield from waiter
            except asyncio.CancelledError:
                self.cancel()
                self._leave()  # also where it is done: who holds on to the exception must not hold the message back
                raise
        return self.result()

    __iter__ = __await__

    def _leave(self) -> None:
        """Wait for the message no longer."""
        token, self._token = self._token, None
        if token is not None:
            self._waits.forget(token)
            self._request._give_up(self._turn)

    def __del__(self) -> None:
        self._leave()
