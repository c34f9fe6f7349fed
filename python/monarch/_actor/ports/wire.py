"""Messages of a channel: their descriptors, and what a receiver makes of them."""

from __future__ import annotations

import marshal

from monarch._actor.errors import remote_error, unpack_exception
from monarch._actor.pickling import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from monarch._native import Message

VALUE = b"value"
ERROR = b"error"  # an exception to raise as it is
END = b"end"  # no message comes any more; the exception to raise instead
GONE = b"gone"  # as END, where nobody is left who could send; a port that goes on to somebody takes it back
PASSED = b"passed"  # somebody else has passed the port on; carries nothing
WAKE = b"wake"  # ends a wait of the receiver; carries nothing


def answer_descriptor(is_error: bool, rank: int, label: str) -> bytes:
    """Of an endpoint's answer that goes to a channel: from which rank, and of which call."""
    return marshal.dumps((is_error, rank, label))


def open_message(message: Message) -> tuple[int | None, Any]:
    """The rank (None where it is no answer of an endpoint) and the value; raises where the message is an exception."""
    descriptor = message.descriptor
    if descriptor == VALUE:
        return None, loads(message.payload, message.take_buffers())
    if descriptor in (ERROR, END, GONE):
        raise unpack_exception(message.payload, message.copy_buffers())[0]
    is_error, rank, label = marshal.loads(descriptor)
    if not is_error:
        return rank, loads(message.payload, message.take_buffers())
    exception, formatted = unpack_exception(message.payload, message.copy_buffers())
    if not formatted:
        raise exception
    raise remote_error(f"Actor call {label} failed.", exception, formatted)
