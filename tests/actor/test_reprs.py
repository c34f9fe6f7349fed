"""What things say of themselves."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually
from monarch.actor import Accumulator, Actor, Channel, ProcMesh, context, endpoint, this_host, this_proc
from sample_actors import Gate, Tally, Where


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
    assert repr(counts) == "<Future of gate.count: pending, 3 of 4 have answered, not {'row': 0/2, 'col': 0/2}>"
    assert repr(held) == "<Future of gate.wait_for: pending>"
    go.touch()
    counts.get(timeout=20)
    assert repr(counts) == "<Future of gate.count: done>"
    assert counts.pending_ranks() == []


def test_a_call_that_takes_long_tells_who_has_not_answered(grid: ProcMesh, tmp_path: Path) -> None:
    gate = grid.spawn("gate", Gate)
    go = tmp_path / "go"
    held = gate.slice(col=1).wait_for.call(str(go))
    counts = gate.count.options(timeout=60).call()
    gate.slice(col=0).count.call().get(timeout=20)
    eventually(lambda: len(counts.pending_ranks()) == 2, "the others have answered")
    assert [dict(point) for point in counts.pending_ranks()] == [{"row": 0, "col": 1}, {"row": 1, "col": 1}]
    assert [dict(point) for point in held.pending_ranks()] == [{"row": 0}, {"row": 1}]
    with pytest.raises(TimeoutError, match=r"0 of 2 ranks have answered, not {'row': 0/2}, {'row': 1/2}"):
        held.get(timeout=0)
    go.touch()
    counts.get(timeout=20)
    assert counts.pending_ranks() == []


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


def test_meshes_say_what_they_are_and_where(grid: ProcMesh) -> None:
    here = os.uname().nodename
    assert repr(grid.slice(row=0)) == f"<ProcMesh grid {{col: 2}} on {here}>"
    assert repr(grid.spawn("tally", Tally, 0)) == f"<ActorMesh tally of Tally {{row: 2, col: 2}} on {here}>"
    assert repr(this_host()) == f"<HostMesh {here} {{}}>"


def test_meshes_say_who_is_dead_and_why(spawn_procs: Callable[..., ProcMesh], faults: list[object]) -> None:
    here = os.uname().nodename
    procs = spawn_procs(per_host={"gpus": 3}, name="procs")
    tally = procs.spawn("tally", Tally, 0)
    other = procs.spawn("other", Tally, 0)
    pids = list(procs.spawn("where", Where).pid.call().get(timeout=20).values())
    other.slice(gpus=0).add.broadcast("no number")
    eventually(lambda: "dead" in repr(other), "the failure is known")
    why = "1 of 3 dead: [gpus=0] failed: endpoint other.add raised TypeError: "
    assert repr(other).startswith(f"<ActorMesh other of Tally {{gpus: 3}} on {here}, {why}")
    assert repr(other.add).startswith(f"<endpoint other.add of {{gpus: 3}}, {why}")
    assert "dead" not in repr(tally)
    for pid in pids[1:]:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: "2 of 3 dead" in repr(procs), "the deaths are known")
    killed = "was killed by signal 9 (SIGKILL)"
    assert repr(procs) == f"<ProcMesh procs {{gpus: 3}} on {here}, 2 of 3 dead: [gpus=1] {killed}, and 1 more>"
    assert repr(tally.slice(gpus=1)) == f"<ActorMesh tally of Tally {{}} on {here}, 1 of 1 dead: its process {killed}>"
    procs.respawn().get(timeout=60)
    other.respawn().get(timeout=60)
    assert repr(procs) == f"<ProcMesh procs {{gpus: 3}} on {here}>"
    assert repr(other) == f"<ActorMesh other of Tally {{gpus: 3}} on {here}>"
    procs.stop("enough").get(timeout=60)
    assert repr(procs) == f"<ProcMesh procs {{gpus: 3}} on {here}, stopped: enough>"


def test_values_and_positions_are_shown_whole(grid: ProcMesh) -> None:
    values = grid.slice(row=0).spawn("tally", Tally, 1).add.call(1).get(timeout=20)
    assert repr(values) == "ValueMesh({col: 2}, [({'col': 0/2}, 2), ({'col': 1/2}, 2)])"
    point, _ = next(iter(values))
    assert (str(point), str(values.extent)) == ("{'col': 0/2}", "{col: 2}")


def test_ports_say_where_their_messages_are_received(one: ProcMesh) -> None:
    port, receiver = Channel[int].open()
    channel = repr(receiver).removeprefix("<PortReceiver of channel ").removesuffix(">")
    assert repr(port) == f"<Port of channel {channel}, received here>"
    shown = one.spawn("shown", Shown).port.call_one(port).get(timeout=20)
    assert shown == f"<Port of channel {channel}, received in another process, or no more>"
