"""Adverbs: how a message goes out and what comes back."""

from __future__ import annotations

import asyncio

import pytest
from monarch.actor import ActorError, ActorMesh, Extent, Point, ProcMesh, ValueMesh
from sample_actors import Async, Echo, Left, Mixed, Right, Tally, Where


def test_worked_example_of_the_adverbs(grid: ProcMesh) -> None:
    tally = grid.spawn("tally", Tally, 10)
    assert isinstance(tally, ActorMesh)
    assert list(tally.add.call(1).get().values()) == [11, 11, 11, 11]
    assert tally.slice(row=0, col=1).add.call_one(5).get() == 16
    tally.add.broadcast(100)
    assert tally.add.call(0).get().item(row=0, col=1) == 116
    assert sum(future.get() for future in tally.add.stream(2)) == 3 * 113 + 118


def test_worked_example_of_places(grid: ProcMesh) -> None:
    where = grid.spawn("where", Where)
    assert where.slice(row=1, col=1).here.call_one().get() == ({"row": 1, "col": 1}, {}, {})
    assert where.slice(row=1).here.call().get().item(col=0) == ({"row": 1, "col": 0}, {"col": 0}, {"col": 2})
    assert where.flatten("n").here.call().get().item(n=3) == ({"row": 1, "col": 1}, {"n": 3}, {"n": 4})
    low = grid.slice(row=1).spawn("low", Where)
    assert low.here.call().get().item(col=1) == ({"col": 1}, {"col": 1}, {"col": 2})


def test_actors_call_actors_that_they_are_given(grid: ProcMesh) -> None:
    left = grid.slice(row=0, col=0).spawn("left", Left)
    right = grid.slice(row=1, col=1).spawn("right", Right)
    assert left.play.call_one(right, 20).get() == 20


def test_call_gives_values_in_rank_order_under_the_extent_of_the_view(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    values = echo.fail_at.call(99, ValueError()).get()
    assert isinstance(values, ValueMesh)
    assert values.extent == Extent(("row", "col"), (2, 2))
    assert list(values) == [(Point(rank, values.extent), rank) for rank in range(4)]
    assert list(echo.slice(col=1).fail_at.call(99, ValueError()).get().values()) == [0, 1]


def test_choose_asks_each_member_sooner_or_later(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    all_pids = set(echo.pid.call().get().values())
    assert len(all_pids) == 4
    assert {echo.pid.choose().get() for _ in range(100)} == all_pids


def test_stream_gives_a_future_for_each_rank(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    futures = list(echo.fail_at.stream(99, ValueError()))
    assert len(futures) == 4
    assert sorted(future.get() for future in futures) == [0, 1, 2, 3]


def test_stream_is_an_async_iterator_of_values(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)

    async def collect() -> list[int]:
        return sorted([value async for value in echo.fail_at.stream(99, ValueError())])

    assert asyncio.run(collect()) == [0, 1, 2, 3]


def test_arguments_are_a_snapshot_of_the_moment_of_the_call(one: ProcMesh) -> None:
    echo = one.spawn("echo", Echo)
    argument = [1]
    future = echo.echo.call_one(argument)
    argument.append(2)
    assert future.get() == [1]


def test_large_buffers_arrive_writable_and_equal(one: ProcMesh) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(300_000)
    back = one.spawn("echo", Echo).echo.call_one(array).get()
    assert (back == array).all()
    back[0] = 7
    assert array[0] == 0


def test_messages_of_one_sender_arrive_in_order_through_all_views(grid: ProcMesh) -> None:
    log = grid.spawn("log", Async)
    corner, row, flat = log.slice(row=0, col=0), log.slice(row=0), log.flatten("n")
    for n in range(100):
        (log, corner, row, flat)[n % 4].step.broadcast(str(n))
    seen = corner.seen.call_one().get()
    assert seen == [f"{what} {n}" for n in range(100) for what in ("start", "end")]


def test_async_endpoints_run_one_at_a_time(one: ProcMesh) -> None:
    actor = one.spawn("async", Async)
    pending = [actor.step.call_one(name) for name in "ab"]
    for future in pending:
        future.get()
    assert actor.seen.call_one().get() == ["start a", "end a", "start b", "end b"]


def test_concurrent_endpoints_overlap(one: ProcMesh) -> None:
    gate = one.spawn("gate", Async)
    waiting = gate.pass_through.call_one()
    gate.lift.call_one().get()
    assert waiting.get() == "through"


def test_sync_endpoints_share_one_thread_that_has_no_loop_and_is_not_the_main_one(one: ProcMesh) -> None:
    echo = one.spawn("echo", Echo)
    threads = {echo.thread.call_one().get() for _ in range(3)}
    assert len(threads) == 1
    name, _, is_main = threads.pop()
    assert name == "echo[0]"
    assert not is_main
    assert not echo.loop_is_visible.call_one().get()
    assert echo.run_loop.call_one().get() == 7


def test_plain_endpoints_of_an_async_actor_run_on_its_thread_with_the_loop_hidden(one: ProcMesh) -> None:
    mixed = one.spawn("mixed", Mixed)
    async_thread, async_loop = mixed.async_thread.call_one().get()
    sync_thread, sync_loop = mixed.sync_thread.call_one().get()
    assert async_thread == sync_thread
    assert async_loop
    assert not sync_loop
    assert mixed.sync_runs_loop.call_one().get() == 5


def test_on_the_live_instance_an_endpoint_is_the_plain_method(one: ProcMesh) -> None:
    assert one.spawn("mixed", Mixed).both.call_one(4).get() == 9


def test_an_exception_arrives_with_its_type_its_traceback_and_spares_the_actor(one: ProcMesh) -> None:
    echo = one.spawn("fragile", Echo)
    with pytest.raises(ActorError) as caught:
        echo.fail.call_one(KeyError("who")).get()
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value.exception, KeyError)
    assert str(caught.value).splitlines()[0] == "Actor call fragile.fail failed."
    assert "raise error" in str(caught.value)
    assert "sample_actors.py" in str(caught.value)
    assert echo.echo.call_one(1).get() == 1


def test_the_error_of_a_call_to_many_carries_what_the_others_answered(grid: ProcMesh) -> None:
    echo = grid.spawn("echo", Echo)
    with pytest.raises(ValueError, match="at two") as caught:
        echo.fail_at.call(2, ValueError("at two")).get()
    error = caught.value
    assert isinstance(error, ActorError)
    assert {point.rank: value for point, value in error.results.items()} == {0: 0, 1: 1, 3: 3}
    assert [point.rank for point in error.failures] == [2]


def test_a_cancelled_error_out_of_an_endpoint_is_the_callers_alone(one: ProcMesh) -> None:
    actor = one.spawn("async", Async)
    with pytest.raises(ActorError, match="of its own"):
        actor.cancel_itself.call_one().get()
    assert actor.echo.call_one(1).get() == 1


def test_waiting_for_a_message_to_oneself_raises_at_the_wait(one: ProcMesh) -> None:
    actor = one.spawn("async", Async)
    with pytest.raises(RuntimeError, match="deadlock"):
        actor.ask_itself.call_one(actor).get(timeout=20)
    assert actor.echo.call_one(1).get() == 1
