"""One-sided memory. Not offered yet: importing this module raises `ImportError` that says what to do."""

from monarch._native import build_info

if build_info()["tensor_engine"] == "1":
    raise ImportError(
        "monarch.rdma is not part of this release yet: send data in actor messages until a later one brings it",
        name=__name__,
    )

raise ImportError(
    "monarch.rdma is not in the actors-only flavour, which this installation is: "
    "install the full package, or build it again without USE_TENSOR_ENGINE=0",
    name=__name__,
)
