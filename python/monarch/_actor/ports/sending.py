"""`send`: a call whose answers go to a port."""

from __future__ import annotations

from monarch import _native
from monarch._actor.context import process, sender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from monarch._actor.endpoint import Endpoint
    from monarch._actor.ports.port import Port


def send(
    endpoint: Endpoint[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    port: Port[Any] | None = None,
    selection: Literal["all", "choose"] = "all",
) -> None:
    """Send to all actors of a mesh, or to one of the living picked at random; the answers go to `port`.

    What an endpoint raises arrives as `ActorError`, an actor that is gone as `SupervisionError`. Answers come in any
    order: see `PortReceiver.ranked`. Without a port nobody learns anything, as with `broadcast`.
    """
    if selection not in ("all", "choose"):
        raise ValueError(f"Invalid selection: {selection!r} is neither 'all' nor 'choose'")
    position = endpoint._pick() if selection == "choose" else None
    payload, buffers = endpoint._pack(args, kwargs, position)
    root, targets = endpoint.root, endpoint._targets
    if root.stopped is not None:
        root.raise_stopped(endpoint)
    message = sender(), endpoint._descriptor, payload, buffers
    if port is None:
        if position is not None:
            rank = endpoint._region.ranks()[position]
            targets = _native.Targets(process().runtime, root.procs._root.mesh, [rank], root.actor)
        targets.cast(*message)
    elif position is not None:
        Forwarding(endpoint, targets.call_at(position, *message), port).go_on()
    else:
        Forwarding(endpoint, targets.call(*message, fail_fast=False), port).go_on()


class Forwarding:
    """Sends answers on to a port as they arrive."""

    def __init__(self, endpoint: Endpoint[..., Any], replies: _native.Replies, port: Port[Any]) -> None:
        self._endpoint = endpoint
        self._replies = replies
        self._port = port
        self._done = 0

    def go_on(self) -> None:
        from monarch._actor.wakeups import callback_thread

        callback_thread().when_ready(self._replies, self._done + 1, self._arrived)

    def _arrived(self) -> None:
        replies = self._replies
        for index in range(self._done, replies.arrived):
            self.forward(replies.message(index))
            self._done = index + 1
        if self._done < replies.expected:
            self.go_on()
        else:
            self.finish()

    def forward(self, message: _native.Message) -> None:
        self._port._forward(self._endpoint, message)

    def finish(self) -> None:
        """The last answer has been sent on."""
