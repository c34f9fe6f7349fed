"""`RDMABuffer`: a handle of memory that other processes read and write."""

from __future__ import annotations

from monarch._actor.future import Future
from monarch._native import RdmaHandle
from monarch.rdma._backends import get_rdma_backend, require_backend
from monarch.rdma._errors import RDMAError, RDMAOutOfRange, RDMAReadOnly
from monarch.rdma._memory import memory_of
from monarch.rdma._moving import Asked, now, start
from monarch.rdma._registered import Registered, registered_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


class RDMABuffer:
    """Memory of one process, which any process that has this object in a message can copy from and to.

    `data` is a contiguous tensor in memory of the CPU, a NumPy array, a `bytearray` or a memoryview, of any shape and
    type; the buffer is exactly its bytes. With `read_only`, or where the memory is, others can only read. The memory is
    kept until `drop()`, or, where no handle was ever sent, as long as this object; a `with` block ends with a `drop()`.
    Equal copies of a handle serve the same, and none of them keeps the memory.

    `ValueError` for other memory, `RDMANoBackend` where this process has no way to move bytes.
    """

    __slots__ = ("__weakref__", "_handle", "_registered")

    def __init__(self, data: Any, *, read_only: bool = False) -> None:
        require_backend()
        registered = Registered(memory_of(data), read_only)
        handle = registered.native.handle(read_only)
        assert handle is not None, "what was just registered is there"
        self._handle = handle
        self._registered: Registered | None = registered

    @classmethod
    def _of(cls, handle: RdmaHandle, registered: Registered | None) -> RDMABuffer:
        self = object.__new__(cls)
        self._handle, self._registered = handle, registered
        return self

    def size(self) -> int:
        """In bytes."""
        return self._handle.size

    @property
    def owner(self) -> str:
        """The process whose memory it is."""
        return self._handle.owner

    @property
    def read_only(self) -> bool:
        """Whether this handle only allows reading."""
        return self._handle.read_only

    @property
    def backend(self) -> str:
        """`get_rdma_backend()` of this process."""
        return get_rdma_backend()

    def as_read_only(self) -> RDMABuffer:
        """A handle of the same memory that only allows reading. Made by the owner, in its process."""
        if self.read_only:
            return self
        registered = self._registered or registered_as(self._handle)
        handle = registered.native.handle(True) if registered is not None else None
        if handle is None:
            raise RDMAError(
                f"only the owner of a buffer, {self.owner}, can make a read-only handle of it, while it has the buffer"
            )
        return RDMABuffer._of(handle, registered)

    def read_into(self, dst: Any, *, offset: int = 0, size: int | None = None, timeout: float = 60.0) -> Future[None]:
        """Copy `size` bytes from `offset` on (all that there are) into the first bytes of `dst`; the rest stays.

        Begins at once, awaited or not, and holds `dst` until it is over. `timeout` is in seconds. `ValueError` at once
        where `dst` is too small or read-only, `RDMAOutOfRange` (one, too) for bytes that are not there.
        """
        return start([self._reading(dst, offset, size)], timeout, "RDMABuffer.read_into")

    def write_from(self, src: Any, *, offset: int = 0, size: int | None = None, timeout: float = 60.0) -> Future[None]:
        """Copy the first `size` bytes of `src` (all that there are) to `offset`; the rest of the buffer stays.

        Otherwise as `read_into`. `RDMAReadOnly` at once where this handle only allows reading.
        """
        return start([self._writing(src, offset, size)], timeout, "RDMABuffer.write_from")

    def _reading(self, dst: Any, offset: int = 0, size: int | None = None) -> Asked:
        memory = memory_of(dst, writable=True)
        wanted = self.size() - offset if size is None else size
        self._check_range(offset, wanted)
        if memory.size < wanted:
            raise ValueError(f"the destination has {memory.size} bytes, too few for {wanted} bytes of the buffer")
        return self._handle, offset, memory, wanted, False

    def _writing(self, src: Any, offset: int = 0, size: int | None = None) -> Asked:
        memory = memory_of(src)
        if self.read_only:
            raise RDMAReadOnly(
                f"this handle of memory of {self.owner} only allows reading: ask for one that allows more"
            )
        wanted = memory.size if size is None else size
        self._check_range(offset, wanted)
        if memory.size < wanted:
            raise ValueError(f"the source has {memory.size} bytes, fewer than the {wanted} that are to be written")
        return self._handle, offset, memory, wanted, True

    def _check_range(self, offset: int, size: int) -> None:
        if offset < 0 or size < 1 or offset + size > self.size():
            raise RDMAOutOfRange(f"{size} bytes from offset {offset} on are not in a buffer of {self.size()} bytes")

    def drop(self) -> Future[None]:
        """End the registration: transfers fail from now on with `RDMABufferGone`, and the owner lets the memory go.

        May be repeated, and called in any process that may write to the buffer. Another process's owner lets its memory
        go as it next registers or lists buffers.
        """
        label = "RDMABuffer.drop"
        registered = self._registered or registered_as(self._handle)
        if registered is not None:
            registered.release()
            return now(label)
        return now(label, self._handle.drop_remotely())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop().get()

    def __eq__(self, other: object) -> bool:
        return self._handle.to_bytes() == other._handle.to_bytes() if isinstance(other, RDMABuffer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._handle.to_bytes())

    def __repr__(self) -> str:
        rights = "read-only, " if self.read_only else ""
        return f"RDMABuffer({rights}{self.size()} bytes of {self.owner})"

    def __reduce__(self) -> tuple[object, ...]:
        if self._registered is not None:
            self._registered.export()
        return _received, (self._handle.to_bytes(),)


def _received(handle: bytes) -> RDMABuffer:
    return RDMABuffer._of(RdmaHandle.from_bytes(handle), None)
