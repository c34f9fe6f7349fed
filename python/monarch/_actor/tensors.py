"""CPU tensors beside the pickle stream. Imported where the program has imported PyTorch, or receives a tensor.

What PyTorch's own pickling promises is kept: size, strides, `requires_grad`; and as with `torch.save`, tensors of one
message that share memory share it where they arrive. A tensor brings the part of its storage that it covers; only where
others of the same message overlap with it, the whole storage.
"""

from __future__ import annotations

import ctypes
from pickle import PickleBuffer

import torch

from monarch._actor.out_of_band import NeedsWholeStorages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Memory:
    """A part of a storage; one object of a message, whatever the number of tensors in it."""

    __slots__ = ("array", "end", "start")

    def __init__(self, storage: Any, start: int, end: int) -> None:
        self.start, self.end = start, end
        array: Any = (ctypes.c_char * (end - start)).from_address(storage.data_ptr() + start)
        array.owner = storage  # as long as the buffer is used
        self.array = array

    def __reduce__(self) -> tuple[object, ...]:
        return rebuild_storage, (PickleBuffer(memoryview(self.array).cast("B")),)


def reduce_tensor(pickler: Any, tensor: Any) -> Any:
    """As `__reduce__`; `NotImplemented` for what PyTorch has to pickle itself."""
    requires_grad = tensor.requires_grad
    if tensor.is_cuda:
        tensor = tensor.detach().cpu()
    if not _is_plain(tensor):
        return NotImplemented
    storage, item_bytes = tensor.untyped_storage(), tensor.element_size()
    size, stride, first = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    last = first + sum((length - 1) * step for length, step in zip(size, stride))
    start, end = first * item_bytes, (last + 1) * item_bytes
    if pickler.whole_storages:
        start, end = 0, storage.nbytes()
    memory = _memory(pickler.storages.setdefault(storage.data_ptr(), []), storage, start, end)
    offset_bytes = first * item_bytes - memory.start
    if offset_bytes % item_bytes:
        raise NeedsWholeStorages
    dtype = str(tensor.dtype).partition(".")[2]
    return rebuild_tensor, (memory, dtype, offset_bytes // item_bytes, size, stride, requires_grad)


def _memory(brought: list[_Memory], storage: Any, start: int, end: int) -> _Memory:
    """The memory from `start` to `end`: new, or within what another tensor of the message has brought."""
    for memory in brought:
        if memory.start <= start and end <= memory.end:
            return memory
        if memory.start < end and start < memory.end:
            raise NeedsWholeStorages
    brought.append(_Memory(storage, start, end))
    return brought[-1]


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor is nothing but strided memory of this process."""
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.numel() == 0:
        return False
    if tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or any(getattr(tensor, "names", ())):
        return False
    if tensor._backward_hooks or tensor.__dict__:
        return False
    try:
        memory = tensor.untyped_storage().data_ptr()
        return bool(memory) and tensor.data_ptr() == memory + tensor.storage_offset() * tensor.element_size()
    except RuntimeError:  # a wrapper, inside of a function transform
        return False


def rebuild_storage(buffer: Any) -> Any:
    """A storage in the memory of `buffer`, or of a copy where that may not be written."""
    if memoryview(buffer).readonly:
        buffer = bytearray(buffer)
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()


def rebuild_tensor(
    storage: Any, dtype: str, offset: int, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool
) -> Any:
    """The tensor that was reduced."""
    tensor = torch.empty(0, dtype=getattr(torch, dtype), device="cpu").set_(storage, offset, size, stride)
    return tensor.requires_grad_() if requires_grad else tensor
