"""`Port`: where a message can be sent to that belongs to no call: a channel, or the caller of an endpoint."""

from __future__ import annotations

from monarch import _native
from monarch._actor.context import _context, process, sender
from monarch._actor.errors import pack_exception
from monarch._actor.generics import Generic, TypeVar
from monarch._actor.identity import ActorAddr, ProcId
from monarch._actor.pickling import dumps
from monarch._actor.ports import passing
from monarch._actor.ports.wire import END, ERROR, PASSED, VALUE, answer_descriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from monarch._actor.endpoint import Endpoint
    from monarch._actor.ports.port_ref import PortRef
    from monarch._actor.undeliverable import PortId

R = TypeVar("R")


class Port(Generic[R]):
    """Takes values and exceptions for somebody who waits. May be passed on and works wherever it arrives.

    Made by `Channel.open`, and by the call of an endpoint with `explicit_response_port=True`. Messages of one sender
    keep their order; those to a receiver that is gone are lost.
    """

    __slots__ = ("__weakref__", "return_undeliverable")

    return_undeliverable: bool  # whether an actor with a `_handle_undeliverable_message` hears of what is lost

    def __init__(self) -> None:
        raise TypeError("a Port is made by Channel.open, or by a call of an endpoint that answers by port")

    def send(self, obj: R) -> None:
        """Send a value; a snapshot, as with arguments. Raises what pickling it raises: then nothing is sent."""
        raise NotImplementedError

    def exception(self, exc: BaseException) -> None:
        """Send an exception, which whoever waits gets as it is."""
        raise NotImplementedError

    def _forward(self, endpoint: Endpoint[..., object], message: _native.Message) -> None:
        """Send on the answer of an endpoint."""
        raise NotImplementedError


class ChannelPort(Port[R]):
    """The address of a channel's mailbox."""

    __slots__ = ("_channel", "_mesh", "_once", "_passed", "_rank", "_sent", "_targets")

    def __init__(self, mesh: bytes, rank: int, channel: bytes, once: bool) -> None:
        self.return_undeliverable = True
        self._mesh = mesh
        self._rank = rank
        self._channel = channel
        self._once = once
        self._sent = False
        self._passed = False
        self._targets: _native.Targets | None = None

    def send(self, obj: R) -> None:
        payload, buffers = dumps(obj)
        self._cast(VALUE, payload, buffers)

    def exception(self, exc: BaseException) -> None:
        self._cast(ERROR, *pack_exception(exc, bare=True))

    def end(self, error: Exception) -> None:
        """Say that no message comes any more."""
        self._deliver(END, *pack_exception(error, bare=True))

    def _forward(self, endpoint: Endpoint[..., object], message: _native.Message) -> None:
        is_error = message.status != _native.STATUS_VALUE
        descriptor = answer_descriptor(is_error, message.rank, endpoint.label)
        self._deliver(descriptor, *_content_of(endpoint, message))

    def _cast(self, descriptor: bytes, payload: bytes, buffers: Sequence[Buffer]) -> None:
        if self._once:
            if self._sent:
                raise RuntimeError("the port takes one message (once=True) and has been used: OncePortRef already used")
            self._sent = True
        self._deliver(descriptor, payload, buffers)

    def _deliver(self, descriptor: bytes, payload: bytes, buffers: Sequence[Buffer]) -> None:
        targets = self._targets
        if targets is None:
            targets = _native.Targets(process().runtime, self._mesh, [self._rank], self._channel)
            self._targets = targets
        current = _context.get()
        if current is not None and current.actor_instance.hears_of_undelivered and self.return_undeliverable:
            from monarch._actor.undeliverable import send_to_channel

            place = ProcId(self._mesh, self._rank)
            message = descriptor, payload, buffers
            send_to_channel(current.actor_instance, targets, place, self._channel, message)
        else:
            targets.cast(sender(), descriptor, payload, buffers)

    @property
    def port_id(self) -> PortId:
        """Where messages to it arrive."""
        from monarch._actor.undeliverable import PortId

        here = ActorAddr.of(_native.PROCESS_ACTOR, "", ProcId(self._mesh, self._rank))
        return PortId(here, int.from_bytes(self._channel, "big"))

    @property
    def _port_ref(self) -> PortRef:
        from monarch._actor.ports.port_ref import PortRef

        return PortRef(self)

    def __repr__(self) -> str:
        where = "received here" if self._channel in passing.here else "received in another process, or no more"
        return f"<Port of channel {self._channel.hex()[:12]}, {where}>"

    def __reduce__(self) -> tuple[object, ...]:
        turns = passing.here.get(self._channel)
        if turns is not None:
            passing.note(turns)
        elif not self._passed:
            self._passed = True
            self._deliver(PASSED, b"", [])  # its opener does not know who may send from now on
        return _arrived, (self._mesh, self._rank, self._channel, self._once, self.return_undeliverable)


def _arrived(mesh: bytes, rank: int, channel: bytes, once: bool, return_undeliverable: bool) -> ChannelPort[R]:
    port: ChannelPort[R] = ChannelPort(mesh, rank, channel, once)
    port.return_undeliverable = return_undeliverable
    return port


class AnsweringPort(Port[R]):
    """Answers a call: the first answer counts."""

    __slots__ = ()

    def send(self, obj: R) -> None:
        payload, buffers = dumps(obj)
        self._answer(_native.STATUS_VALUE, payload, buffers)

    def exception(self, exc: BaseException) -> None:
        self._answer(_native.STATUS_ERROR, *pack_exception(exc, bare=True))

    def _forward(self, endpoint: Endpoint[..., object], message: _native.Message) -> None:
        is_error = message.status != _native.STATUS_VALUE
        status = _native.STATUS_ERROR if is_error else _native.STATUS_VALUE
        self._answer(status, *_content_of(endpoint, message))

    def _answer(self, status: int, payload: bytes, buffers: Sequence[Buffer]) -> None:
        raise NotImplementedError


class ResponsePort(AnsweringPort[R]):
    """The caller of an endpoint, at the actor that was called.

    The caller is told when the port is dropped unused, and when the actor ends; once the port has been passed on,
    answering is the care of whoever has it.
    """

    __slots__ = ("_label", "_message", "_passed", "_settled")

    def __init__(self, message: _native.Message, label: str) -> None:
        self.return_undeliverable = True
        self._message = message
        self._label = label
        self._passed: PassedPort[R] | None = None
        self._settled = not message.expects_reply

    def _answer(self, status: int, payload: bytes, buffers: Sequence[Buffer]) -> None:
        if self._passed is not None:
            self._passed._answer(status, payload, buffers)
        elif not self._settled:
            self._settled = True
            self._message.reply(status, payload, buffers)

    def answers(self, message: _native.Message) -> bool:
        """Whether this is the port of that call."""
        return self._message is message

    def raised(self, error: Exception) -> bool:
        """The endpoint raised: tell the caller; False where it does not wait any more."""
        if self._settled and self._passed is None:
            return False
        self._answer(_native.STATUS_ERROR, *pack_exception(error))
        return True

    def abandon(self) -> None:
        """The actor ends: tell the caller, unless others may answer."""
        if not self._settled:
            self._settled = True
            self._message.reply(_native.STATUS_DEAD, b"")

    def __repr__(self) -> str:
        return f"<Port of a caller of {self._label}>"

    def __reduce__(self) -> tuple[object, ...]:
        if self._passed is None:
            self._passed = PassedPort(self._message.call_id, self._message.rank, self._label)
            self._settled = True
            self._message.hand_over_reply()
        return self._passed.__reduce__()

    def __del__(self) -> None:
        try:
            if not self._settled:
                error = RuntimeError(f"{self._label} gives no answer: its response port was dropped without a send")
                self._answer(_native.STATUS_ERROR, *pack_exception(error))
        except (RuntimeError, AttributeError, ImportError, TypeError):
            pass  # a fork of the process, or an interpreter that ends


class PassedPort(AnsweringPort[R]):
    """The caller of an endpoint, anywhere."""

    __slots__ = ("_call", "_label", "_rank")

    def __init__(self, call: bytes | None, rank: int, label: str) -> None:
        """`call` is None where nobody waits."""
        self.return_undeliverable = True
        self._call = call
        self._rank = rank
        self._label = label

    def _answer(self, status: int, payload: bytes, buffers: Sequence[Buffer]) -> None:
        if self._call is not None:
            process().runtime.reply_to(self._call, self._rank, status, payload, buffers)

    def __repr__(self) -> str:
        return f"<Port of a caller of {self._label}>"

    def __reduce__(self) -> tuple[object, ...]:
        return PassedPort, (self._call, self._rank, self._label)


def _content_of(endpoint: Endpoint[..., object], message: _native.Message) -> tuple[bytes, Sequence[Buffer]]:
    """The value or the exception in an answer, packed."""
    if message.status != _native.STATUS_DEAD:
        return message.payload, message.take_buffers()
    from monarch._actor.supervision import error_of_death

    return pack_exception(error_of_death(endpoint, message), bare=True)
