"""Large `bytes` are their receiver's own, although the memory of those that nobody has is used again."""

from __future__ import annotations

import threading
from typing import Any

from conftest import eventually
from monarch._native import bytes_of
from payload_actors import memory_mb

SIZE = 1 << 20
LARGE_MB = 64


def content(value: int, size: int = SIZE) -> bytearray:
    return bytearray([value % 256]) * size


def test_bytes_that_are_kept_stay_as_they_were_while_others_come_and_go() -> None:
    kept: list[tuple[int, bytes]] = []
    for value in range(60):
        received = bytes_of(content(value))
        if value % 3 == 0:
            kept.append((value, received))
        if value % 20 == 0:
            kept.clear()
        assert received == content(value)
        assert all(earlier == content(number) for number, earlier in kept)
        assert len({id(earlier) for _, earlier in kept}) == len(kept)


def test_bytes_have_the_hash_of_their_content_whoever_had_their_memory_before() -> None:
    for value in range(10):
        received = bytes_of(content(value))
        assert hash(received) == hash(bytes(content(value)))
        assert {received: value}[bytes(content(value))] == value


def test_a_view_of_bytes_keeps_their_content() -> None:
    views = [memoryview(bytes_of(content(value)))[10:] for value in range(20)]
    assert all(view == content(value)[10:] for value, view in enumerate(views))


def test_threads_that_receive_at_the_same_time_get_bytes_of_their_own() -> None:
    wrong: list[int] = []

    def receive(value: int) -> None:
        size = 5 * SIZE
        expected = bytes(content(value, size))
        for _ in range(30):
            if bytes_of(content(value, size)) != expected:
                wrong.append(value)

    threads = [threading.Thread(target=receive, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pages_of_bytes_that_nobody_has_go_back_to_the_system_and_can_be_filled_again() -> None:
    source: Any = content(7, LARGE_MB << 20)
    before = memory_mb()
    received = bytes_of(source)
    assert memory_mb() > before + LARGE_MB / 2
    del received
    eventually(lambda: memory_mb() < before + LARGE_MB / 4, "the return of the pages", within_s=60.0)
    assert bytes_of(source) == source
