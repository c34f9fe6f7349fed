"""Actors that own memory, and actors that reach that of others."""

from __future__ import annotations

import os
import time

from monarch.actor import Actor, Port, endpoint
from monarch.rdma import RDMABuffer, RDMABufferGone, live_buffers


class Holder(Actor):
    """Owns memory."""

    def __init__(self) -> None:
        self.memory = bytearray()

    @endpoint
    def make(self, content: bytes, read_only: bool = False) -> RDMABuffer:
        self.memory = bytearray(content)
        return RDMABuffer(self.memory, read_only=read_only)

    @endpoint
    def make_large(self, size: int) -> RDMABuffer:
        self.memory = bytearray(size)
        return RDMABuffer(self.memory)

    @endpoint
    def content(self) -> bytes:
        return bytes(self.memory)

    @endpoint
    def live(self) -> int:
        return len(live_buffers())

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def be_busy(self, began: Port[None], seconds: float) -> None:
        began.send(None)
        time.sleep(seconds)

    @endpoint
    def come_and_go(self, rounds: int, port: Port[tuple[RDMABuffer, int]]) -> None:
        """Register blocks that hold their number, and spoil each as soon as it is dropped."""
        for round in range(rounds):
            block = bytearray([round % 250]) * 65536
            buffer = RDMABuffer(block)
            port.send((buffer, round % 250))
            time.sleep(0)
            buffer.drop().get()
            block[:] = b"\xff" * len(block)
            del block


class Reader(Actor):
    """Reaches memory of others."""

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def read(self, buffer: RDMABuffer) -> bytes:
        local = bytearray(buffer.size())
        buffer.read_into(local).get()
        return bytes(local)

    @endpoint
    async def read_async(self, buffer: RDMABuffer) -> bytes:
        local = bytearray(buffer.size())
        await buffer.read_into(local)
        return bytes(local)

    @endpoint
    def write(self, buffer: RDMABuffer, content: bytes, offset: int = 0) -> None:
        buffer.write_from(content, offset=offset).get()

    @endpoint
    def drop(self, buffer: RDMABuffer) -> None:
        buffer.drop().get()

    @endpoint
    def read_for_ever(self, buffer: RDMABuffer, began: Port[None]) -> None:
        local = bytearray(buffer.size())
        buffer.read_into(local).get()
        began.send(None)
        try:
            while True:
                buffer.read_into(local).get()
        except RDMABufferGone:
            return
