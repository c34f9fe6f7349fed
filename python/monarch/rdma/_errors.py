"""What registrations and transfers raise. Each is also a built-in that programs already catch."""

from __future__ import annotations


class RDMAError(Exception):
    """Something about one-sided memory went wrong."""


class RDMATimeout(RDMAError, TimeoutError):
    """The time was over before the last byte had moved."""


class RDMAPeerLost(RDMAError, ConnectionError):
    """The owner of the memory has ended."""


class RDMABufferGone(RDMAError, LookupError):
    """The owner has no such buffer: it was dropped or collected, or the handle proves nothing."""


class RDMAReadOnly(RDMAError, PermissionError):
    """The handle, or the memory behind it, only allows reading."""


class RDMAOutOfRange(RDMAError, ValueError):
    """The bytes are not all in the buffer."""


class RDMANoBackend(RDMAError, RuntimeError):
    """There is no way to move bytes between the two processes."""


class RDMATcpFallbackWarning(UserWarning):
    """Kept for programs that filter it; never given."""


class RDMAReadTransferWarning(UserWarning):
    """Kept for programs that filter it; never given."""


class RDMAWriteTransferWarning(UserWarning):
    """Kept for programs that filter it; never given."""


_OF_KIND: dict[str, type[RDMAError]] = {
    "timeout": RDMATimeout,
    "lost": RDMAPeerLost,
    "gone": RDMABufferGone,
    "read_only": RDMAReadOnly,
    "range": RDMAOutOfRange,
    "no_backend": RDMANoBackend,
}


def error_of(kind: str, text: str) -> RDMAError:
    """The exception for an error of the native module."""
    return _OF_KIND.get(kind, RDMAError)(text)
