"""The checklist of what programs written for the actor API rely on, line by line: the number is in the test's name.

Lines 24 to 28 are in `test_checklist_hosts.py`; line 29 is about the debugger, which is not there yet.
"""

from __future__ import annotations

import asyncio
import collections
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conformance_actors import (
    AsksController,
    AsksLater,
    AsyncWithPlainHooks,
    Counted,
    Double,
    Ending,
    Hop,
    Overlap,
    Owner,
    Plain,
    PlainWithAsyncHooks,
    Slow,
    Suspended,
    SyncAndAsync,
)
from conftest import eventually
from monarch._src.actor.mock import patch_actor
from monarch.actor import (
    Accumulator,
    ActorError,
    Channel,
    Extent,
    MeshFailure,
    ProcMesh,
    SupervisionError,
    get_or_spawn_controller,
    send,
    this_host,
    this_proc,
)

SpawnProcs = Callable[..., ProcMesh]
Faults = list[MeshFailure]


def corner(mesh: Any) -> Any:
    return mesh.slice(row=0, col=0)


def test_a01_spawn_returns_before_the_constructor_ran_and_a_call_right_after_it_succeeds(
    grid: ProcMesh, tmp_path: Path
) -> None:
    slow = grid.spawn("slow", Slow, str(tmp_path / "go"))
    call = slow.hello.call()
    assert not call.done()
    (tmp_path / "go").touch()
    assert list(call.get(timeout=30).values()) == ["hello"] * 4


def test_a02_normal_async_endpoints_never_overlap_and_concurrent_ones_do(one: ProcMesh) -> None:
    overlap: Any = one.spawn("overlap", Overlap)
    for step in [overlap.step.call_one() for _ in range(5)]:
        step.get(timeout=30)
    assert overlap.most_at_once.call_one().get(timeout=30) == 1
    for meeting in [overlap.meet.call_one() for _ in range(2)]:
        meeting.get(timeout=30)


def test_a03_a_sync_endpoint_has_no_loop_and_one_thread_that_is_not_the_main_one(one: ProcMesh) -> None:
    plain = one.spawn("plain", Plain)
    seen = {plain.where.call_one().get(timeout=30) for _ in range(5)}
    assert len(seen) == 1
    (looped, _, main) = seen.pop()
    assert not looped
    assert not main


def test_a04_waiting_for_oneself_raises(one: ProcMesh) -> None:
    overlap: Any = one.spawn("overlap", Overlap)
    with pytest.raises(RuntimeError, match="deadlock"):
        overlap.ask_itself.call_one(overlap).get(timeout=30)


def test_a05_the_rank_of_a_message_follows_the_view_and_that_of_the_actor_does_not(grid: ProcMesh) -> None:
    plain = grid.spawn("plain", Plain)
    assert plain.slice(row=1).ranks.call().get(timeout=30).item(col=1) == ({"col": 1}, {"row": 1, "col": 1})
    assert plain.flatten("n").ranks.call().get(timeout=30).item(n=2) == ({"n": 2}, {"row": 1, "col": 0})


def test_a06_call_gives_the_values_in_rank_order_under_the_extent_of_the_view(grid: ProcMesh, tmp_path: Path) -> None:
    row = grid.spawn("plain", Plain).slice(row=1)
    values = row.answer_after_the_next.call(str(tmp_path)).get(timeout=30)
    assert values.extent == Extent(["col"], [2])
    assert list(values.values()) == [0, 1]


def test_a07_call_one_of_many_and_bad_arguments_are_errors_at_once_and_nothing_is_sent(grid: ProcMesh) -> None:
    plain: Any = grid.spawn("plain", Plain)
    with pytest.raises(ValueError, match="call_one requires exactly 1 actor, but mesh has 4"):
        plain.note.call_one(1)
    with pytest.raises(TypeError):
        plain.note.broadcast()
    with pytest.raises(TypeError):
        plain.note.call(1, 2)
    with pytest.raises(TypeError):
        plain.note.broadcast(wrong=1)
    assert list(plain.noted.call().get(timeout=30).values()) == [[]] * 4


def test_a08_a_change_of_an_argument_after_broadcast_is_not_seen(grid: ProcMesh) -> None:
    plain = grid.spawn("plain", Plain)
    argument = [1]
    plain.note.broadcast(argument)
    argument.append(2)
    assert corner(plain).noted.call_one().get(timeout=30) == [[1]]


def test_a09_messages_of_one_sender_arrive_in_order_through_all_views_and_copies(grid: ProcMesh) -> None:
    plain = grid.spawn("plain", Plain)
    views = [
        plain,
        corner(plain),
        plain.slice(row=slice(0, 1)),
        plain.flatten("n"),
        pickle.loads(pickle.dumps(plain)),
        corner(pickle.loads(pickle.dumps(plain))),
    ]
    for number in range(600):
        views[number % len(views)].note.broadcast(number)
    assert corner(plain).noted.call_one().get(timeout=60) == list(range(600))


def test_a10_an_exception_with_a_reply_is_the_callers_and_the_next_call_works(one: ProcMesh) -> None:
    plain = one.spawn("plain", Plain)
    with pytest.raises(ActorError) as caught:
        plain.fail.call_one(KeyError("who")).get(timeout=30)
    assert type(caught.value.exception) is KeyError
    assert "raise error" in str(caught.value)
    assert "conformance_actors.py" in str(caught.value)
    assert plain.index.call_one().get(timeout=30) == 0


def test_a11_an_exception_under_broadcast_is_told_to_the_owner_for_each_rank(grid: ProcMesh) -> None:
    owner = this_proc().spawn("owner", Owner, grid, True)
    owner.fail_all.call_one().get(timeout=30)

    def ranks() -> list[int]:
        return sorted(p.rank for failure in owner.told.call_one().get(timeout=30) for p in failure.ranks)

    eventually(lambda: len(ranks()) >= 4, "all four are told")
    assert ranks() == [0, 1, 2, 3]


def test_a11_an_exception_under_broadcast_that_nobody_handles_reaches_the_hook(one: ProcMesh, faults: Faults) -> None:
    plain = one.spawn("plain", Plain)
    plain.fail.broadcast(KeyError("who"))
    eventually(lambda: faults, "the hook is called")
    assert [(failure.mesh, failure.kind) for failure in faults] == [(plain, "exception")]


def test_a12_a_failure_that_is_handled_goes_no_further(one: ProcMesh) -> None:
    owner = this_proc().spawn("owner", Owner, one, True)
    owner.fail_all.call_one().get(timeout=30)
    eventually(lambda: owner.told.call_one().get(timeout=30), "the owner is told")
    assert len(owner.told.call_one().get(timeout=30)) == 1


@pytest.mark.parametrize("verdict", [False, "out of its depth"])
def test_a12_a_failure_that_is_not_handled_fails_the_owner_with_both_reports(
    one: ProcMesh, faults: Faults, verdict: bool | str
) -> None:
    owner = this_proc().spawn("owner", Owner, one, verdict)
    owner.fail_all.call_one().get(timeout=30)
    eventually(lambda: faults, "the owner's owner is told")
    report = faults[0].report()
    assert faults[0].mesh == owner
    assert "ValueError: of the owned" in report
    assert (verdict or "did not handle a supervision event from its child") in report
    with pytest.raises(SupervisionError):
        owner.told.call_one().get(timeout=30)


def test_a13_sys_exit_ends_the_actor_and_not_the_process(one: ProcMesh, faults: Faults) -> None:
    plain = one.spawn("plain", Plain)
    pid = plain.pid.call_one().get(timeout=30)
    with pytest.raises(SupervisionError):
        plain.leave.call_one().get(timeout=30)
    assert one.spawn("next", Plain).pid.call_one().get(timeout=30) == pid


def test_a14_a_killed_worker_fails_the_call_in_flight_and_live_slices_work(
    spawn_procs: SpawnProcs, faults: Faults, tmp_path: Path
) -> None:
    plain = spawn_procs({"gpus": 2}).spawn("plain", Plain)
    pid = plain.slice(gpus=1).pid.call_one().get(timeout=30)
    pending = plain.slice(gpus=1).wait.call_one(str(tmp_path / "never"))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(SupervisionError, match="SIGKILL"):
        pending.get(timeout=30)
    assert plain.slice(gpus=0).index.call_one().get(timeout=30) == 0


def test_a15_stop_lets_the_running_sync_endpoint_answer_and_drops_what_waits(one: ProcMesh, tmp_path: Path) -> None:
    ending = one.spawn("ending", Ending, str(tmp_path / "end"))
    running = ending.wait.call_one(str(tmp_path / "go"))
    waiting = ending.note.call_one("never")
    eventually(Path(tmp_path / "go.begun").exists, "the endpoint runs")
    stop = ending.stop()
    one.initialized.get(timeout=30)  # the process answers in order: it knows of the stop
    (tmp_path / "go").touch()
    assert running.get(timeout=30) == "done"
    stop.get(timeout=30)
    with pytest.raises(SupervisionError):
        waiting.get(timeout=30)
    assert (tmp_path / "end").read_text() == "None []\n"


def test_a16_stop_cancels_a_suspended_async_endpoint(one: ProcMesh, tmp_path: Path) -> None:
    suspended = one.spawn("suspended", Suspended)
    running = suspended.wait_for_ever.call_one(str(tmp_path / "it"))
    eventually(Path(tmp_path / "it.begun").exists, "the endpoint runs")
    suspended.stop().get(timeout=30)
    with pytest.raises(SupervisionError):
        running.get(timeout=30)
    assert (tmp_path / "it.cancelled").exists()


def test_a17_only_the_owners_object_can_stop_a_mesh(grid: ProcMesh) -> None:
    plain = grid.spawn("plain", Plain)
    for reference in (plain.slice(row=0), pickle.loads(pickle.dumps(plain))):
        with pytest.raises(NotImplementedError):
            reference.stop()
    for procs in (grid.slice(row=0), pickle.loads(pickle.dumps(grid)), this_proc()):
        with pytest.raises(ValueError, match="not owned"):
            procs.stop()
    for end in (this_host().stop, this_host().shutdown):
        with pytest.raises(RuntimeError, match="reference"):
            end()


def test_a18_a_future_gives_the_same_value_to_whoever_asks_however_often(one: ProcMesh, tmp_path: Path) -> None:
    plain = one.spawn("plain", Plain)
    future = plain.wait.call_one(str(tmp_path / "go"))
    with pytest.raises(TimeoutError):
        future.get(timeout=0.01)

    async def observe() -> list[str]:
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):
            await asyncio.wait_for(future.as_asyncio(), 0.01)
        (tmp_path / "go").touch()
        return [await future, await future]

    assert asyncio.run(observe()) == ["done", "done"]
    assert [future.get(timeout=30), future.get(timeout=30), future.result()] == ["done"] * 3


def test_a19_a_port_delivers_to_its_opener_through_two_hops(grid: ProcMesh) -> None:
    hops = list(grid.spawn("hop", Hop))
    port, receiver = Channel[Any].open()
    hops[0].pass_on.broadcast(port, "value", hops[1], hops[2])
    assert receiver.recv().get(timeout=30) == "value"
    hops[0].pass_on.broadcast(port, KeyError("bare"), hops[1], hops[2])
    with pytest.raises(KeyError) as caught:
        receiver.recv().get(timeout=30)
    assert type(caught.value) is KeyError


def test_a20_send_to_a_chosen_one_gives_one_reply_and_other_selections_are_refused(grid: ProcMesh) -> None:
    plain = grid.spawn("plain", Plain)
    port, receiver = Channel[Any].open()
    send(plain.index, (), {}, port=port, selection="choose")
    assert receiver.recv().get(timeout=30) in range(4)
    # A second reply would have come before this one.
    for rank in range(4):
        send(plain.flatten("n").slice(n=rank).where, (), {}, port=port)
        assert receiver.recv().get(timeout=30)[0] is False
    with pytest.raises(ValueError, match="foo"):
        send(plain.index, (), {}, port=port, selection="foo")  # type: ignore[arg-type]


def test_a21_an_accumulator_folds_one_value_of_each_rank(grid: ProcMesh) -> None:
    plain = grid.spawn("plain", Plain)
    folded = Accumulator(plain.index, (), lambda seen, value: (*seen, value)).accumulate().get(timeout=30)
    assert sorted(folded) == [0, 1, 2, 3]


def test_a22_a_named_controller_is_one_for_the_program_and_lives_with_it(grid: ProcMesh) -> None:
    mine: Any = get_or_spawn_controller("a22", Counted).get(timeout=30)
    assert mine.next.call_one().get(timeout=30) == 1
    answers = list(grid.spawn("asking", AsksController).ask.call("a22").get(timeout=60).values())
    assert sorted(count for count, _ in answers) == [2, 3, 4, 5]
    assert {pid for _, pid in answers} == {os.getpid()}


def test_a23_meshes_that_are_not_up_yet_may_be_passed_as_arguments(spawn_procs: SpawnProcs, tmp_path: Path) -> None:
    slow = spawn_procs({"gpus": 2}).spawn("slow", Slow, str(tmp_path / "go"))
    asking = spawn_procs().spawn("asking", AsksLater, slow)
    answer = asking.ask.call_one()
    (tmp_path / "go").touch()
    assert answer.get(timeout=60) == ["hello", "hello"]


def test_a30_a_test_double_stands_in_for_an_actor_inside_the_context_only(one: ProcMesh) -> None:
    with patch_actor(Plain, Double):
        assert one.spawn("plain", Plain).index.call_one().get(timeout=30) == -1
    assert one.spawn("plain", Plain).index.call_one().get(timeout=30) == 0


@pytest.mark.parametrize("kind", [SyncAndAsync, AsyncWithPlainHooks, PlainWithAsyncHooks])
def test_a31_sync_and_async_may_be_mixed(one: ProcMesh, kind: Any) -> None:
    mixed = one.spawn("mixed", kind)
    if issubclass(kind, SyncAndAsync):
        assert mixed.plain.call_one().get(timeout=30) == mixed.coroutine.call_one().get(timeout=30)
    else:
        assert mixed.index.call_one().get(timeout=30) == 0
    mixed.stop().get(timeout=30)


def test_a32_choose_is_uniform_over_the_living(spawn_procs: SpawnProcs, faults: Faults) -> None:
    plain: Any = spawn_procs({"gpus": 4}).spawn("plain", Plain)
    assert set(picks(plain, 400)) == {0, 1, 2, 3}
    assert all(50 < count < 150 for count in picks(plain, 400).values())  # six standard deviations
    pid = plain.slice(gpus=2).pid.call_one().get(timeout=30)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: faults, "the death is known")
    assert set(picks(plain, 100)) == {0, 1, 3}


def picks(mesh: Any, count: int) -> collections.Counter[int]:
    futures = [mesh.index.choose() for _ in range(count)]
    return collections.Counter(future.get(timeout=30) for future in futures)
