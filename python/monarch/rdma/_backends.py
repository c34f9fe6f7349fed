"""Which way bytes take."""

from __future__ import annotations

from monarch._actor import settings
from monarch._native import build_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch.rdma._buffer import RDMABuffer


def is_ibverbs_available() -> bool:
    """Whether a network card that speaks verbs would be used. Not so far: no transfer takes one yet."""
    return False


def is_rdma_available() -> bool:
    """As `is_ibverbs_available`, which replaces it; warns of that."""
    import warnings

    warnings.warn("is_rdma_available() is now is_ibverbs_available()", DeprecationWarning, stacklevel=2)
    return is_ibverbs_available()


def get_rdma_backend(buffer: RDMABuffer | None = None) -> str:
    """How bytes move: `"ibverbs"`; `"tcp"`, which stands for every way without a device; or `"none"`.

    For a buffer: how they move between this process and its owner, which can also be `"same_host"`.
    """
    if build_info()["platform"] != "linux" or not settings.value("rdma_allow_tcp_fallback"):
        return "none"
    if buffer is None:
        return "tcp"
    return "same_host" if buffer._handle.same_host else "none"


def require_backend() -> None:
    """Raise `RDMANoBackend` where this process can move nothing, with the way out."""
    if get_rdma_backend() != "none":
        return
    from monarch.rdma._errors import RDMANoBackend

    if not settings.value("rdma_allow_tcp_fallback"):
        raise RDMANoBackend(
            "no RDMA backend: there is no ibverbs device that can be used, and rdma_allow_tcp_fallback is off; "
            "allow memory to be moved without a device with configure(rdma_allow_tcp_fallback=True)"
        )
    raise RDMANoBackend(
        "no RDMA backend: this build has no copy between processes, which only Linux has; send the data in messages"
    )
