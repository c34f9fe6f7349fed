"""Meshes as values: slices, identity, attributes, members, pickling."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from monarch.actor import HostMesh, ProcMesh, current_rank, this_host, this_proc
from sample_actors import Crowded, Echo, Where


def test_steps_lists_and_negative_indexes_select(grid: ProcMesh) -> None:
    flat: Any = grid.spawn("where", Where).flatten("n")
    pids = list(flat.pid.call().get().values())
    assert list(flat.slice(n=slice(0, 4, 2)).pid.call().get().values()) == [pids[0], pids[2]]
    assert list(flat.slice(n=[3, 0]).pid.call().get().values()) == [pids[3], pids[0]]
    assert flat.slice(n=-1).pid.call_one().get() == pids[3]


def test_views_of_the_same_actors_under_the_same_labels_are_equal(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    assert echo == echo.slice()
    assert echo.slice(row=1) == echo.slice(row=1)
    assert hash(echo.slice(row=1)) == hash(echo.slice(row=1))
    assert echo.slice(row=1) != echo.slice(row=0)
    assert echo.slice(row=1) != echo.slice(row=1).rename(col="x")
    assert echo != grid.spawn("echo", Echo)
    assert {grid: 1}[grid.slice()] == 1
    assert {this_host(): 1}[this_host()] == 1


def test_iterating_gives_members(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    pids = list(echo.pid.call().get().values())
    assert [member.pid.call_one().get() for member in echo] == pids
    assert [(dict(point), member.pid.call_one().get()) for point, member in echo.items()][1] == (
        {"row": 0, "col": 1},
        pids[1],
    )


def test_a_program_may_put_attributes_of_its_own_on_meshes(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    for mesh in (echo, grid, this_host()):
        mesh.my_own = 5  # type: ignore[attr-defined]
        assert mesh.my_own == 5  # type: ignore[attr-defined]


def test_an_endpoint_wins_over_a_mesh_attribute_of_its_name(grid: ProcMesh) -> None:
    crowded: Any = grid.spawn("crowded", Crowded)
    assert list(crowded.size.call().get().values()) == ["endpoint"] * 4
    assert crowded.slice(row=0, col=0).extent.call_one().get() == "endpoint too"
    assert len(crowded) == 4
    assert pickle.loads(pickle.dumps(crowded)).size.choose().get() == "endpoint"


def test_meshes_pickle_small_and_equal(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    for mesh in (echo, echo.slice(row=0), grid, grid.slice(col=1), this_host(), this_proc()):
        payload = pickle.dumps(mesh)
        assert pickle.loads(payload) == mesh
        assert len(payload) < 600
    assert pickle.loads(pickle.dumps(echo)).slice(row=0, col=0).echo.call_one(1).get() == 1


def test_a_reference_that_arrived_can_be_used_but_not_stopped(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    copy = pickle.loads(pickle.dumps(echo))
    copy.initialized.get(timeout=20)
    for reference in (copy, echo.slice(row=0)):
        with pytest.raises(NotImplementedError, match="only the actor mesh that `spawn` returned"):
            reference.stop()
    for procs in (pickle.loads(pickle.dumps(grid)), grid.slice(row=0), this_proc()):
        with pytest.raises(ValueError, match="not owned"):
            procs.stop()
    with pytest.raises(RuntimeError, match="reference"):
        this_host().stop()


@pytest.mark.parametrize("what", ["echo", "context", "instance", "stream"])
def test_what_belongs_to_the_moment_does_not_pickle(grid: ProcMesh, what: str) -> None:
    from monarch.actor import context

    echo = grid.spawn("echo", Echo)
    things = {
        "echo": echo.echo,
        "context": context(),
        "instance": context().actor_instance,
        "stream": echo.pid.stream(),
    }
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(things[what])


def test_the_program_is_the_root_of_all_actors() -> None:
    from monarch.actor import context, current_actor_name

    assert dict(current_rank()) == {}
    assert context().actor_instance.name == "root"
    assert repr(context().actor_instance) == "<root>"
    assert current_actor_name().startswith("client.client-0<")


def test_the_same_name_can_be_spawned_again_on_the_same_processes(one: ProcMesh) -> None:
    first, second = one.spawn("same", Echo), one.spawn("same", Echo)
    assert first.pid.call_one().get() == second.pid.call_one().get()


def test_host_and_process_meshes_have_no_dimensions_here() -> None:
    assert isinstance(this_host(), HostMesh)
    assert dict(this_host().extent) == {}
    assert dict(this_proc().extent) == {}
    assert this_proc().host_mesh == this_host()
