"""The receiving ends of a channel."""

from __future__ import annotations

from monarch._actor.future import Future
from monarch._actor.generics import Generic, TypeVar
from monarch._actor.ports.turns import Turn
from monarch._actor.ports.wire import open_message
from monarch._actor.shape import Extent

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator
    from typing import Any

    from typing_extensions import Self

    from monarch import _native
    from monarch._actor.ports.turns import Turns

R = TypeVar("R")
A = TypeVar("A")


class Received(Future[A]):
    """A message that may still be on its way."""

    __slots__ = ()

    def as_asyncio(self) -> asyncio.Future[A]:
        from monarch._actor.ports.taking import MessageFuture

        return MessageFuture(self)

    def __await__(self) -> Generator[Any, None, A]:
        turn: Any = self._replies
        try:
            return (yield from super().__await__())
        except BaseException:
            self._give_up(turn)  # whoever holds on to the exception must not hold the message back
            raise

    def _give_up(self, turn: Any) -> None:
        """One wait for the message has ended without it. `turn` is what it waited for."""
        if type(turn) is Turn:
            turn.give_up()


class Receiver(Generic[A]):
    """Hands out the messages of a channel, in the order in which they arrived. Belongs to this process."""

    __slots__ = ("_turns",)

    # What a future wants to know of what it waits for.
    label = "PortReceiver.recv"
    extent = Extent((), ())
    root = None

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def recv(self) -> Future[A]:
        """The next message. Requests are served in their order.

        A request that times out may be repeated on its future; one that is abandoned or cancelled leaves its message
        to the next. Exceptions that were sent are raised by the future. Raises `ValueError` for a second message of a
        channel that was opened with `once=True`.
        """
        replies: Any = Turn(self._turns)
        return Received._of(replies, 1, _received, self, quiet=True)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> A:
        return await self.recv()

    def is_answered_here(self, replies: object) -> bool:
        return False

    def _decode(self, messages: list[_native.Message]) -> A:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of channel {self._turns.channel.hex()[:12]}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError(f"a {type(self).__name__} cannot be pickled: it belongs to its process; send the port instead")


class PortReceiver(Receiver[R]):
    """Hands out the values that are sent to a port."""

    __slots__ = ()

    def ranked(self) -> RankedPortReceiver[R]:
        """The same messages, each with the rank of the actor whose endpoint answered it."""
        return RankedPortReceiver(self._turns)

    def _decode(self, messages: list[_native.Message]) -> R:
        value: R = open_message(messages[0])[1]
        return value


class RankedPortReceiver(Receiver["tuple[int, R]"]):
    """Hands out pairs of rank and value: answers of endpoints, see `send`. Anything else is a `ValueError`."""

    __slots__ = ()

    def _decode(self, messages: list[_native.Message]) -> tuple[int, R]:
        rank, value = open_message(messages[0])
        if rank is None:
            raise ValueError(
                "got a message without a rank: only answers of endpoints, sent by `send(…, port=…)`, have one"
            )
        return rank, value


class ReducedPortReceiver(Receiver[A]):
    """Hands out folds: all messages that are there when the result is asked for, at least one."""

    __slots__ = ("_combine", "_identity")

    def __init__(self, turns: Turns, combine: Callable[[A, Any], A], identity: A) -> None:
        super().__init__(turns)
        self._combine = combine
        self._identity = identity

    def _decode(self, messages: list[_native.Message]) -> A:
        total = self._identity
        for message in messages:
            total = self._combine(total, open_message(message)[1])
        return total


def _received(receiver: Any, turn: Any) -> Any:
    return receiver._decode(turn.take())
