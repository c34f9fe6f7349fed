"""The bytes of tensors, arrays, `bytearray` and memoryviews."""

from __future__ import annotations

import sys

from monarch._native import RdmaMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def memory_of(data: Any, writable: bool = False) -> RdmaMemory:
    """The memory of `data`, which it keeps. `ValueError` for what is not in one piece, or empty, or cannot be written.

    PyTorch is never imported: what is not loaded has made no tensor.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        memory = _of_tensor(torch, data)
    else:
        try:
            memory = RdmaMemory.of(data)
        except (BufferError, TypeError):
            raise ValueError(
                f"{_described(data)} has no memory that can be used: RDMA only supports contiguous tensors, arrays, "
                "bytearrays and memoryviews; make a contiguous copy"
            ) from None
    if memory.size == 0:
        raise ValueError(f"{_described(data)} has size 0: there is nothing to move")
    if writable and memory.read_only:
        raise ValueError(f"{_described(data)} is read-only: it cannot be read into; use a bytearray, array or tensor")
    return memory


def _of_tensor(torch: Any, tensor: Any) -> RdmaMemory:
    if tensor.device.type != "cpu":
        raise ValueError(f"a tensor on {tensor.device} cannot be used yet: RDMA only supports memory of the CPU so far")
    if tensor.layout is not torch.strided or not tensor.is_contiguous():
        raise ValueError(
            f"a tensor of shape {tuple(tensor.shape)} that is not contiguous: RDMA only supports contiguous tensors; "
            "use tensor.contiguous()"
        )
    return RdmaMemory.at(tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor.untyped_storage())


def _described(data: Any) -> str:
    shape = getattr(data, "shape", None)
    return f"{type(data).__name__} of shape {tuple(shape)}" if shape else f"a {type(data).__name__}"
