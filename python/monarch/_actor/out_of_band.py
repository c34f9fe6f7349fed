"""What leaves the pickle stream: the stream that large `bytes` leave, and reducers for arrays and tensors.

NumPy hands its memory over by itself where that is in one piece. PyTorch copies everything into the stream; its CPU
tensors are reduced here instead, without importing it: who sends a tensor has imported it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pickle import PickleBuffer
    from typing import Any, TypeAlias

    from typing_extensions import Buffer

    OutOfBand: TypeAlias = PickleBuffer | bytes | bytearray

# Buffers of fewer bytes stay in the stream: a part of their own would cost more than the copy.
OUT_OF_BAND_BYTES = 64 * 1024

# By exact type; called with the pickler and the object, they return what `__reduce__` does or `NotImplemented`.
REDUCERS: dict[type, Callable[[Any, Any], Any]] = {}


def learn_reducers() -> None:
    """Have the reducers of those libraries that the program has imported."""
    for name in _LIBRARIES:
        if name in sys.modules and name not in _learned:
            _LIBRARIES[name]()


class NeedsWholeStorages(Exception):
    """Tensors of a message overlap, and the first did not bring enough for both: pickle it all again."""


class Stream:
    """What a pickler writes to; also keeps the buffers that were not written."""

    __slots__ = ("buffers", "chunks")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.buffers: list[OutOfBand] = []

    def write(self, chunk: Buffer) -> None:
        """Take what the pickler writes; of a large `bytes` or `bytearray` it writes the object itself."""
        size = memoryview(chunk).nbytes
        if size < OUT_OF_BAND_BYTES or not isinstance(chunk, (bytes, bytearray)) or not self._replace(chunk, size):
            self.chunks.append(bytes(chunk))

    def _replace(self, chunk: bytes | bytearray, size: int) -> bool:
        """Put into the stream that the object is made of the next buffer; False where it is not an object's content."""
        kind, made_of_buffer = _CONTENT[type(chunk)]
        written = self.chunks[-1] if self.chunks else b""
        for opcode, length_bytes in kind:
            header = opcode + size.to_bytes(8, "little")[:length_bytes]
            if written.endswith(header):
                self.chunks[-1] = written[: -len(header)] + made_of_buffer
                self.buffers.append(chunk)
                return True
        return False

    def keep_in_stream(self, buffer: PickleBuffer) -> bool:
        """Where the pickler asks whether a buffer is to be written."""
        if memoryview(buffer).nbytes < OUT_OF_BAND_BYTES:
            return True
        self.buffers.append(buffer)
        return False

    def value(self) -> bytes:
        """The stream."""
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)


def _call_with_next_buffer(module: bytes, name: bytes) -> bytes:
    """The pickle of `module.name(buffer)`: SHORT_BINUNICODE twice, STACK_GLOBAL, NEXT_BUFFER, TUPLE1, REDUCE."""
    return b"\x8c" + bytes([len(module)]) + module + b"\x8c" + bytes([len(name)]) + name + b"\x93\x97\x85R"


# What precedes the content of an object in the stream (BINBYTES, BINBYTES8; BYTEARRAY8), and what comes in its place.
_CONTENT = {
    bytes: (((b"B", 4), (b"\x8e", 8)), _call_with_next_buffer(b"monarch._native", b"bytes_of")),
    bytearray: (((b"\x96", 8),), _call_with_next_buffer(b"builtins", b"bytearray")),
}


def _learn_numpy() -> None:
    numpy: Any = sys.modules["numpy"]
    if not hasattr(numpy, "ascontiguousarray"):
        return  # another thread is importing it

    def reduce_array(pickler: object, array: Any) -> Any:
        if array.nbytes < OUT_OF_BAND_BYTES or array.dtype.hasobject or array.flags.c_contiguous:
            return NotImplemented
        axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        if array.transpose(axes).flags.c_contiguous:
            return NotImplemented  # NumPy keeps the order of axes
        return numpy.ascontiguousarray(array).__reduce_ex__(5)

    REDUCERS[numpy.ndarray] = reduce_array
    _learned.add("numpy")


def _learn_torch() -> None:
    torch: Any = sys.modules["torch"]
    if not hasattr(torch, "frombuffer") or not hasattr(torch, "nn"):
        return  # another thread is importing it
    from monarch._actor.tensors import reduce_tensor

    REDUCERS[torch.Tensor] = reduce_tensor
    _learned.add("torch")


_LIBRARIES = {"numpy": _learn_numpy, "torch": _learn_torch}
_learned: set[str] = set()
