"""One-sided memory: a process registers a piece of its memory, and whoever has the handle reads it or writes to it.

The owner's code does not run for that. Between processes of one Linux host so far.
"""

from monarch._native import build_info

if build_info()["tensor_engine"] != "1":
    raise ImportError(
        "monarch.rdma is not in the actors-only flavour, which this installation is: "
        "install the full package, or build it again without USE_TENSOR_ENGINE=0",
        name=__name__,
    )

from monarch.rdma._action import RDMAAction
from monarch.rdma._backends import get_rdma_backend, is_ibverbs_available, is_rdma_available
from monarch.rdma._buffer import RDMABuffer
from monarch.rdma._errors import (
    RDMABufferGone,
    RDMAError,
    RDMANoBackend,
    RDMAOutOfRange,
    RDMAPeerLost,
    RDMAReadOnly,
    RDMAReadTransferWarning,
    RDMATcpFallbackWarning,
    RDMATimeout,
    RDMAWriteTransferWarning,
)
from monarch.rdma._registered import LiveBuffer, live_buffers

__all__ = [
    "RDMABuffer",
    "RDMAAction",
    "get_rdma_backend",
    "is_ibverbs_available",
    "is_rdma_available",
    "live_buffers",
    "LiveBuffer",
    "RDMAError",
    "RDMATimeout",
    "RDMAPeerLost",
    "RDMABufferGone",
    "RDMAReadOnly",
    "RDMAOutOfRange",
    "RDMANoBackend",
    "RDMATcpFallbackWarning",
    "RDMAReadTransferWarning",
    "RDMAWriteTransferWarning",
]
