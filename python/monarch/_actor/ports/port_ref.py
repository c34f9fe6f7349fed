"""`PortRef`: a channel's port, as `Port._port_ref` gives it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from monarch._actor.ports.port import ChannelPort
    from monarch._actor.undeliverable import PortId


class PortRef:
    """Names a channel's receiver, and sends to it. A value: it pickles as its port does."""

    __slots__ = ("_port",)

    def __init__(self, port: ChannelPort[Any]) -> None:
        self._port = port

    @property
    def port_id(self) -> PortId:
        return self._port.port_id

    @property
    def return_undeliverable(self) -> bool:
        return self._port.return_undeliverable

    @return_undeliverable.setter
    def return_undeliverable(self, value: bool) -> None:
        self._port.return_undeliverable = value

    def send(self, instance: object, message: Any) -> None:
        """Send a value. `instance` is who sends; it is the actor whose code runs here in any case."""
        self._port.send(message)

    def __repr__(self) -> str:
        return f"<PortRef {self.port_id}>"

    def __reduce__(self) -> tuple[type[PortRef], tuple[ChannelPort[Any]]]:
        return PortRef, (self._port,)
