"""Worked examples, with the results that were observed where they come from. Imports and comments apart as they are."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from conformance_actors import Customer, Fragile, Gate, Keeper, Left, Right, Server, Tally, Where
from conftest import eventually
from monarch.actor import Accumulator, ActorError, Channel, ProcMesh, as_endpoint, send, this_proc

SpawnProcs = Callable[..., ProcMesh]


def test_c1_adverbs(grid: ProcMesh) -> None:
    tally: Any = grid.spawn("tally", Tally, 10)
    assert list(tally.add.call(1).get().values()) == [11, 11, 11, 11]
    assert tally.slice(row=0, col=1).add.call_one(5).get() == 16
    tally.add.broadcast(100)
    assert tally.add.call(0).get().item(row=0, col=1) == 116
    as_endpoint(tally.reset).call().get()
    assert sum(f.get() for f in tally.add.stream(2)) == 8
    assert Accumulator(tally.add, 0, lambda a, b: a + b).accumulate(1).get() == 12


def test_c2_where_am_i(grid: ProcMesh) -> None:
    where: Any = grid.spawn("where", Where)
    assert where.slice(row=1, col=1).here.call_one().get() == ({"row": 1, "col": 1}, {}, {})
    assert where.slice(row=1).here.call().get().item(col=0) == ({"row": 1, "col": 0}, {"col": 0}, {"col": 2})
    assert where.flatten("n").here.call().get().item(n=3) == ({"row": 1, "col": 1}, {"n": 3}, {"n": 4})
    low: Any = grid.slice(row=1).spawn("low", Where)
    assert low.here.call().get().item(col=1) == ({"col": 1}, {"col": 1}, {"col": 2})


def test_c3_answering_later() -> None:
    server = this_proc().spawn("server", Server)
    pending = [server.wait_for_news.call_one() for _ in range(3)]
    assert server.publish.call_one("hi").get() == 3
    assert [p.get() for p in pending] == ["hi", "hi", "hi"]


def test_c4_overlap() -> None:
    gate = this_proc().spawn("gate", Gate)
    f = gate.pass_through.call_one()
    gate.lift.call_one().get()
    assert f.get() == "through"


def test_c5_errors(spawn_procs: SpawnProcs) -> None:
    fragile = spawn_procs().spawn("fragile", Fragile)
    with pytest.raises(ActorError) as caught:
        fragile.parse.call_one("ten").get()
    assert type(caught.value.exception).__name__ == "ValueError"
    assert str(caught.value).splitlines()[0] == "Actor call fragile.parse failed."
    assert fragile.parse.call_one("10").get() == 10


def test_c6_ports_and_ranks(grid: ProcMesh) -> None:
    tally: Any = grid.spawn("tally", Tally, 3)
    port, inbox = Channel[int].open()
    send(tally.add, (1,), {}, port=port)
    assert [inbox.recv().get() for _ in range(4)] == [4, 4, 4, 4]
    rport, ranked = Channel[int].open_ranked()
    send(tally.add, (1,), {}, port=rport)
    assert sorted(ranked.recv().get() for _ in range(4)) == [(0, 5), (1, 5), (2, 5), (3, 5)]


def test_c7_actors_calling_actors(spawn_procs: SpawnProcs) -> None:
    left = spawn_procs(name="l").spawn("left", Left)
    right = spawn_procs(name="r").spawn("right", Right)
    assert left.play.call_one(right, 20).get() == 20


def test_c8_a_shared_singleton(grid: ProcMesh) -> None:
    assert sorted(grid.spawn("customer", Customer).fetch.call().get().values()) == [1, 2, 3, 4]


def test_c9_restart() -> None:
    keeper: Any = this_proc().spawn("keeper", Keeper, 2)
    (_, first), _ = crew_of(keeper, generation=0)
    keeper.break_one.call_one().get(timeout=30)
    (_, second), _ = crew_of(keeper, generation=1)
    os.kill(second, signal.SIGKILL)
    (_, third), _ = crew_of(keeper, generation=2)
    assert len({first, second, third}) == 3
    keeper.stop().get(timeout=30)


def crew_of(keeper: Any, generation: int) -> list[tuple[int, int]]:
    """Generation and process of the crew, once it is of that generation."""
    answers: list[list[tuple[int, int]]] = []

    def is_there() -> bool:
        try:
            answers.append(keeper.query.call_one().get(timeout=30))
        except ActorError:  # the crew that was lost
            return False
        return answers[-1][0][0] == generation

    eventually(is_there, f"generation {generation} answers")
    return answers[-1]
