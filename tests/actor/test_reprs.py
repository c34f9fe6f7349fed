"""What things say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from monarch.actor import Accumulator, Actor, Channel, ProcMesh, context, endpoint, this_proc
from sample_actors import Gate, Tally


class Shown(Actor):
    @endpoint
    def context(self) -> str:
        return repr(context())

    @endpoint
    def port(self, port: Any) -> str:
        return repr(port)

    @endpoint
    def generate(self) -> Iterator[int]:
        yield 1


def test_contexts_say_who_runs_for_which_message(grid: ProcMesh) -> None:
    assert repr(context()) == "<Context of <root>, for a message to it alone>"
    shown = grid.spawn("shown", Shown).slice(row=1).context.call().get(timeout=20)
    name = f"<root>.<{Shown.__module__}.Shown shown{{'row': 1/2, 'col': 1/2}}>"
    assert shown.item(col=1) == f"<Context of {name}, for a message to {{'col': 1/2}}>"


def test_futures_say_what_they_wait_for_and_how_far_that_is(grid: ProcMesh, tmp_path: Path) -> None:
    gate = grid.spawn("gate", Gate)
    go = tmp_path / "go"
    held = gate.slice(row=0, col=0).wait_for.call_one(str(go))
    counts = gate.count.call()
    gate.slice(row=1).count.call().get(timeout=20)
    gate.slice(row=0, col=1).count.call_one().get(timeout=20)
    assert repr(counts) == "<Future of gate.count: pending, 3 of 4 have answered>"
    assert repr(held) == "<Future of gate.wait_for: pending>"
    go.touch()
    counts.get(timeout=20)
    assert repr(counts) == "<Future of gate.count: done>"


def test_endpoints_and_what_they_give_say_whose_they_are(grid: ProcMesh) -> None:
    tally = grid.spawn("tally", Tally, 0)
    assert repr(tally.add) == "<endpoint tally.add of {row: 2, col: 2}>"
    assert repr(Tally.add) == "<endpoint Tally.add: call it on the mesh that `spawn` returns>"
    assert repr(tally.reset) == "<method Tally.reset, not an endpoint, of tally>"
    stream = tally.add.stream(1)
    next(stream).get(timeout=20)
    assert repr(stream) == "<ValueStream of tally.add: 1 of 4 answers taken>"
    assert repr(Accumulator(tally.add, 0, int.__add__)) == "<Accumulator of tally.add>"
    generated: Any = this_proc().spawn("shown", Shown).generate.stream()
    assert repr(generated) == "<GeneratedStream of shown.generate>"
    assert list(generated) == [1]


def test_meshes_say_kind_name_and_extent(grid: ProcMesh) -> None:
    assert repr(grid.slice(row=0)) == "<ProcMesh grid {col: 2}>"
    assert repr(grid.spawn("tally", Tally, 0)) == "<ActorMesh tally of Tally {row: 2, col: 2}>"


def test_ports_say_where_their_messages_are_received(one: ProcMesh) -> None:
    port, receiver = Channel[int].open()
    channel = repr(receiver).removeprefix("<PortReceiver of channel ").removesuffix(">")
    assert repr(port) == f"<Port of channel {channel}, received here>"
    shown = one.spawn("shown", Shown).port.call_one(port).get(timeout=20)
    assert shown == f"<Port of channel {channel}, received in another process, or no more>"
