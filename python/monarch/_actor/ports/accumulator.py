"""`Accumulator`: calls that fold what the actors answer."""

from __future__ import annotations

from monarch._actor.answers import answer_at
from monarch._actor.generics import Generic, ParamSpec, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch import _native
    from monarch._actor.endpoint import Endpoint
    from monarch._actor.future import Future

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Accumulator(Generic[P, R, A]):
    """Calls an endpoint on all actors and folds the answers in the order in which they arrive.

    `combine(so_far, answer)` begins with `identity`; it may run again for another observer of the future, so it must
    not mutate what it is given.
    """

    def __init__(self, endpoint: Endpoint[P, R], identity: A, combine: Callable[[A, R], A]) -> None:
        self._endpoint = endpoint
        self._identity = identity
        self._combine = combine

    def accumulate(self, *args: P.args, **kwargs: P.kwargs) -> Future[A]:
        """Send to all; the result is the fold, or the error of the first that failed."""
        endpoint = self._endpoint
        payload, buffers = endpoint._pack(args, kwargs)
        return endpoint._send(payload, buffers, len(endpoint._targets), self._fold)

    def __repr__(self) -> str:
        return f"<Accumulator of {self._endpoint.label}>"

    def _fold(self, endpoint: Endpoint[Any, Any], replies: _native.Replies) -> A:
        total = self._identity
        for index in range(replies.arrived):
            total = self._combine(total, answer_at(index)(endpoint, replies))
        return total
