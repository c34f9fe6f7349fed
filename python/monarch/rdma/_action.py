"""`RDMAAction`: copies that are submitted together, as often as one likes."""

from __future__ import annotations

from monarch._actor.future import Future
from monarch.rdma._buffer import RDMABuffer
from monarch.rdma._moving import Asked, now, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from typing_extensions import Self


class RDMAAction:
    """A list of reads and writes. It stays as it is when it is submitted, and may be submitted again.

    Copies run in no order; where two touch the same bytes, either may be last. One that fails stops no other.
    """

    __slots__ = ("_asked", "_buffers", "_running")

    def __init__(self) -> None:
        self._buffers: list[RDMABuffer] = []  # whose own memory it is keeps it as long as this
        self._asked: list[Asked] = []
        self._running: Future[None] | None = None

    def read_remote(self, dst: Any, src: RDMABuffer) -> Self:
        """Copy all of `src` into the first bytes of `dst`. Checked now, as `RDMABuffer.read_into` does."""
        return self._add(src, src._reading(dst))

    def write_remote(self, dst: RDMABuffer, src: Any) -> Self:
        """Copy all of `src` to the beginning of `dst`. Checked now, as `RDMABuffer.write_from` does."""
        return self._add(dst, dst._writing(src))

    def submit(self, timeout: float = 60.0) -> Future[None]:
        """Begin all copies; the future is done when all are over, with the errors of those that failed.

        Waits for an earlier run of this action that is not over. `timeout` is in seconds.
        """
        if self._running is not None:
            self._running._replies.wait(1)
        label = "RdmaAction.submit"
        self._running = start(self._asked, timeout, label) if self._asked else now(label)
        return self._running

    def fetch_add(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("RDMAAction.fetch_add: there are no remote atomics")

    def compare_and_swap(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("RDMAAction.compare_and_swap: there are no remote atomics")

    def _add(self, buffer: RDMABuffer, asked: Asked) -> Self:
        if self._running is not None and not self._running._replies.ready(1):
            raise RuntimeError("this action runs: wait for its future before more is added, or make another action")
        self._buffers.append(buffer)
        self._asked.append(asked)
        return self

    def __repr__(self) -> str:
        return f"RDMAAction({len(self._asked)} copies, {sum(asked[3] for asked in self._asked)} bytes)"
