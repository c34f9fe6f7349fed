"""What a message says about its payload: the endpoint, and the extent of the view as the caller addressed it.

A descriptor is made once for each bound endpoint and understood once by each receiving actor, which keeps what it
found under the bytes.
"""

from __future__ import annotations

import marshal

from monarch._actor.shape import Extent

# Messages of the runtime to one of its actors; no endpoint descriptor begins like these.
STOP_AFTER_QUEUE = b"stop"
LOOK_UP = b"look up"
WATCH = b"watch"  # never answered, so that the actor's end does; the payload identifies it
UNWATCH = b"unwatch"

STREAM = "stream"
CONFIRM = "confirm"


def endpoint_descriptor(name: str, extent: Extent) -> bytes:
    return marshal.dumps((name, extent.labels, extent.sizes))


def method_descriptor(name: str, extent: Extent, takes_port: bool) -> bytes:
    """Of a plain method that its caller makes an endpoint of."""
    return marshal.dumps((name, extent.labels, extent.sizes, takes_port))


def stream_descriptor(name: str, extent: Extent) -> bytes:
    """Of a generator endpoint whose values go to the port before its arguments."""
    return marshal.dumps((name, extent.labels, extent.sizes, STREAM))


def confirmed_descriptor(name: str, extent: Extent) -> bytes:
    """Of an endpoint that is told something, wanting no answer but that it has been taken."""
    return marshal.dumps((name, extent.labels, extent.sizes, CONFIRM))


def parse_endpoint_descriptor(descriptor: bytes) -> tuple[str, Extent, bool | str | None]:
    """Name, extent, and how it is called: None as an endpoint, `STREAM` as a generator endpoint, `CONFIRM` where only
    the taking is answered, a boolean as a plain method, by whether it takes a response port."""
    name, labels, sizes, *takes_port = marshal.loads(descriptor)
    return name, Extent(labels, sizes), takes_port[0] if takes_port else None
