"""What a wrong argument, name or size says, and that nothing is sent then."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from typing import Any

import pytest
from monarch.actor import Actor, ActorError, ProcMesh, SupervisionError, endpoint, this_host
from sample_actors import Derived, Echo, Gate, RaisesOddly, Shouter, Tally, TwoArguments, Unbuildable


@pytest.mark.parametrize("adverb", ["call", "call_one", "choose", "stream", "broadcast"])
def test_wrong_arguments_are_refused_at_the_caller(one: ProcMesh, adverb: str) -> None:
    gate: Any = one.spawn("gate", Gate)
    send: Callable[..., object] = getattr(gate.count, adverb)
    with pytest.raises(TypeError, match="too many positional arguments"):
        send(1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        send(y=1)
    assert gate.count.call_one().get() == 0


def test_a_missing_argument_is_named(one: ProcMesh) -> None:
    tally: Any = one.spawn("tally", Tally, 1)
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        tally.add.call_one()


def test_an_unknown_endpoint_names_class_mesh_and_a_near_name(one: ProcMesh) -> None:
    echo: Any = one.spawn("ears", Echo)
    with pytest.raises(AttributeError, match=r"Echo has no endpoint 'ecco' \(mesh 'ears'\): did you mean 'echo'"):
        _ = echo.ecco


def test_a_plain_method_cannot_be_called_on_a_mesh(one: ProcMesh) -> None:
    shouter = one.spawn("s", Shouter)
    with pytest.raises(RuntimeError, match=r"Shouter.whisper .*not an endpoint.*@endpoint"):
        shouter.whisper("x")
    with pytest.raises(AttributeError, match=r"Shouter.whisper .*not an endpoint.*'call'.*@endpoint"):
        shouter.whisper.call("x")  # type: ignore[attr-defined]


def test_an_endpoint_cannot_be_called_without_an_adverb(one: ProcMesh) -> None:
    with pytest.raises(TypeError, match=r"s.shout is an endpoint .*call_one"):
        one.spawn("s", Shouter).shout("x")


@pytest.mark.parametrize("size", [0, -3])
def test_a_size_below_one_names_dimension_and_value(size: int) -> None:
    with pytest.raises(ValueError, match=f"dimension 'gpus' has size {size}"):
        this_host().spawn_procs({"hosts": 1, "gpus": size})


@pytest.mark.parametrize("size", ["2", 1.5, None])
def test_a_size_that_is_no_integer_is_a_type_error(size: Any) -> None:
    with pytest.raises(TypeError, match="dimension 'gpus' has size"):
        this_host().spawn_procs({"gpus": size})


def test_per_host_has_to_be_a_dict() -> None:
    with pytest.raises(TypeError, match="per_host is 8"):
        this_host().spawn_procs(8)  # type: ignore[arg-type]


def test_more_processes_than_the_descriptor_limit_allows_names_limit_and_number() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    this_host().spawn_procs().stop().get(timeout=30)  # what the runtime opens once is open
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with pytest.raises((OSError, RuntimeError), match=r"256.*ulimit -n|ulimit -n.*256|RLIMIT_NOFILE"):
            this_host().spawn_procs({"gpus": 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_bindings_are_checked_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="proc_bind has 1 entries: it needs one for each of the 2"):
        this_host().spawn_procs({"gpus": 2}, proc_bind=[{"cpus": "0"}])
    with pytest.raises(ValueError, match="the key 'cpu': known are cpus, cpunodebind"):
        this_host().spawn_procs(proc_bind=[{"cpu": "0"}])


def test_a_bootstrap_command_is_checked_before_anything_starts() -> None:
    with pytest.raises(TypeError, match="has to return a BootstrapCommand"):
        this_host().spawn_procs(bootstrap_command=lambda point: "python")  # type: ignore[arg-type, return-value]


def test_what_is_not_an_actor_class_cannot_be_spawned(one: ProcMesh) -> None:
    with pytest.raises(ValueError, match=r"derived from monarch\.actor\.Actor"):
        one.spawn("x", dict)


def test_constructor_arguments_are_checked_at_the_caller(one: ProcMesh) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'start'"):
        one.spawn("x", Tally)
    with pytest.raises(TypeError, match="too many positional arguments"):
        one.spawn("x", Tally, 1, 2)
    with pytest.raises(TypeError, match=r"Derived\(\) takes no arguments"):
        one.spawn("x", Derived, 1)


def test_an_unpicklable_argument_is_named(one: ProcMesh) -> None:
    echo = one.spawn("echo", Echo)
    with pytest.raises(TypeError, match=r"echo\.echo.*'key'"):
        echo.echo.call_one(1, key=threading.Lock())
    with pytest.raises(TypeError, match=r"tally.*'start'"):
        one.spawn("tally", Tally, threading.Lock())
    assert echo.echo.call_one(1).get() == 1


def test_an_unpicklable_result_names_the_endpoint_and_spares_the_actor(one: ProcMesh) -> None:
    echo = one.spawn("echo", Echo)
    with pytest.raises(ActorError, match=r"the result of echo\.lambda_result cannot be pickled") as caught:
        echo.lambda_result.call_one().get()
    assert isinstance(caught.value.exception, TypeError)
    assert echo.echo.call_one(1).get() == 1


def test_an_exception_that_does_not_travel_arrives_as_text_and_traceback(one: ProcMesh) -> None:
    odd = one.spawn("odd", RaisesOddly)
    with pytest.raises(ActorError) as caught:
        odd.unpicklable.call_one().get()
    assert "Unpicklable: holds a lock" in str(caught.value)
    assert "in unpicklable" in str(caught.value)
    with pytest.raises(ActorError):
        odd.unpicklable.call_one().get()


def test_an_exception_with_a_constructor_of_its_own_is_caught_by_its_type(one: ProcMesh) -> None:
    odd = one.spawn("odd", RaisesOddly)
    with pytest.raises(TwoArguments, match="1 and 2") as caught:
        odd.two.call_one().get()
    assert isinstance(caught.value, ActorError)


def test_an_argument_that_does_not_unpickle_is_the_callers_error(one: ProcMesh) -> None:
    echo = one.spawn("echo", Echo)
    with pytest.raises(ActorError, match="cannot be rebuilt"):
        echo.echo.call_one(Unbuildable()).get()
    assert echo.echo.call_one(1).get() == 1


def test_a_call_on_a_stopped_mesh_names_mesh_and_reason(one: ProcMesh) -> None:
    echo = one.spawn("short_lived", Echo)
    echo.stop("had enough").get()
    for call in (echo.echo.call_one(1), echo.echo.call(1), echo.echo.choose(1), next(iter(echo.echo.stream(1)))):
        with pytest.raises(SupervisionError, match="'short_lived' was stopped: had enough"):
            call.get(timeout=0)
    with pytest.raises(SupervisionError, match="'short_lived' was stopped: had enough"):
        echo.echo.broadcast(1)


def test_a_spawn_on_stopped_processes_names_them_and_the_reason(spawn_procs: Callable[..., ProcMesh]) -> None:
    procs = spawn_procs(name="gone")
    echo = procs.spawn("echo", Echo)
    procs.stop("not needed").get()
    with pytest.raises(RuntimeError, match="'gone' were stopped: not needed"):
        procs.spawn("late", Echo)
    with pytest.raises(SupervisionError, match="not needed"):
        echo.echo.call_one(1).get()


def test_a_slice_out_of_range_names_dimension_and_size(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    with pytest.raises(IndexError, match=r"'row'.*2"):
        echo.slice(row=2)
    with pytest.raises(TypeError, match="no dimension 'gpus'"):
        echo.slice(gpus=0)
    with pytest.raises(ValueError, match="row"):
        grid.slice(row=slice(1, 1))


def test_call_one_on_several_actors_says_how_many_there_are(grid: ProcMesh) -> None:
    with pytest.raises(ValueError, match="call_one requires exactly 1 actor, but mesh has 4"):
        grid.spawn("echo", Echo).echo.call_one(1)


def test_an_endpoint_has_a_public_name_and_is_a_function() -> None:
    with pytest.raises(ValueError, match="public name"):

        class Private(Actor):
            @endpoint
            def _hidden(self) -> None: ...

    with pytest.raises(TypeError, match="plain method"):
        endpoint(3)  # type: ignore[call-overload]
