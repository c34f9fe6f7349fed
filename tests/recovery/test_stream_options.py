"""Streams and broadcasts with options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from monarch.actor import Actor, ProcMesh, RestartPolicy, endpoint
from recovering_actors import Worker

WITHIN_S = 20.0


@pytest.fixture(scope="module")
def pair() -> Iterator[ProcMesh]:
    """Two processes for a whole module."""
    from conftest import _spawner

    for spawn in _spawner():
        yield spawn({"w": 2})


def test_a_stream_with_options_gives_each_answer_once(pair: ProcMesh) -> None:
    workers: Any = pair.spawn("workers", Worker)
    stream = workers.add.options(timeout=WITHIN_S, retry=1).stream(1, 2)
    assert [answer.get(timeout=WITHIN_S) for answer in stream] == [3, 3]
    assert repr(stream) == "<ValueStream of workers.add: 2 of 2 answers taken>"


def test_a_timeout_ends_the_answers_that_have_not_come(pair: ProcMesh, tmp_path: Path) -> None:
    workers: Any = pair.spawn("workers", Worker)
    workers.count.call().get(timeout=WITHIN_S)
    go = tmp_path / "go"
    held = workers.slice(w=1).wait_for.call_one(str(go))
    first, second = workers.add.options(timeout=2).stream(1, 2)
    assert first.get(timeout=WITHIN_S) == 3
    with pytest.raises(TimeoutError, match=r"workers\.add: no result after 2 s"):
        second.get(timeout=WITHIN_S)
    go.touch()
    held.get(timeout=WITHIN_S)


def test_with_fail_fast_the_first_error_is_that_of_all_later_answers(pair: ProcMesh, tmp_path: Path) -> None:
    workers: Any = pair.spawn("workers", Worker)
    there = tmp_path / "there"
    refused = workers.refuse_once_there.options(fail_fast=True).stream(str(there), [1])
    for answer in refused:
        with pytest.raises(ValueError, match="refused by 0"):
            answer.get(timeout=WITHIN_S)
    there.touch()


def test_a_rank_that_died_is_asked_again_once_it_is_there_again(
    spawn_procs: Callable[..., ProcMesh], tmp_path: Path
) -> None:
    workers: Any = spawn_procs({"w": 2}).supervised(RestartPolicy(backoff=(0, 0))).spawn("workers", Worker)
    workers.count.call().get(timeout=WITHIN_S)
    stream = workers.end_process_once.options(retry=5).stream(str(tmp_path / "died"))
    pids = {answer.get(timeout=WITHIN_S) for answer in stream}
    assert len(pids) == 2


class Keeps(Actor):
    def __init__(self) -> None:
        self.seen: list[int] = []

    @endpoint
    def keep(self, value: int) -> None:
        self.seen.append(value)

    @endpoint
    def kept(self) -> list[int]:
        return self.seen

    @endpoint
    def generate(self) -> Iterator[int]:
        yield 1


def test_a_broadcast_with_options_is_a_broadcast(pair: ProcMesh) -> None:
    keeps: Any = pair.spawn("keeps", Keeps)
    assert keeps.keep.options(timeout=1, fail_fast=True, retry=1).broadcast(7) is None
    assert list(keeps.kept.call().get(timeout=WITHIN_S).values()) == [[7], [7]]


def test_a_generators_stream_has_no_options(pair: ProcMesh) -> None:
    keeps: Any = pair.spawn("keeps", Keeps)
    with pytest.raises(TypeError, match=r"keeps\.generate is a generator: its stream has no options"):
        keeps.generate.options(timeout=1).stream()
