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


def endpoint_descriptor(name: str, extent: Extent) -> bytes:
    return marshal.dumps((name, extent.labels, extent.sizes))


def parse_endpoint_descriptor(descriptor: bytes) -> tuple[str, Extent]:
    name, labels, sizes = marshal.loads(descriptor)
    return name, Extent(labels, sizes)
