"""Messages to actors on several hosts: one for each host, answers in order, and what is lost on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cast_actors import Member
from conftest import eventually
from host_fixtures import start_together
from host_programs import HostProgram
from monarch._actor import context
from monarch.actor import ActorError, Channel, HostMesh, MeshFailure, SupervisionError, ValueMesh, this_host

Start = Callable[..., HostProgram]
Attach = Callable[..., HostMesh]
WITHIN_S = 60.0
GPUS = 3


def members_on(hosts: HostMesh) -> Any:
    return hosts.spawn_procs({"gpu": GPUS}, name="workers").spawn("members", Member)


def values(mesh: ValueMesh[Any]) -> list[Any]:
    return [value for _, value in mesh.items()]


def frames() -> tuple[int, int]:
    """What the client has sent to hosts and got from them so far."""
    assert context._process is not None
    return context._process.runtime.messages_between_hosts()


def sent_by(action: Callable[[], object]) -> int:
    before = frames()[0]
    action()
    return frames()[0] - before


def test_what_is_sent_grows_with_the_hosts_and_not_with_the_processes(attach: Attach) -> None:
    members = members_on(attach(8))
    assert values(members.rank.call().get(timeout=WITHIN_S)) == list(range(8 * GPUS))
    assert sent_by(lambda: members.rank.call().get(timeout=WITHIN_S)) == 8
    assert sent_by(lambda: members.hear.broadcast(1)) == 8
    assert sent_by(lambda: list(members.rank.stream())) == 8
    assert sent_by(lambda: members.slice(hosts=slice(2, 5)).rank.call().get(timeout=WITHIN_S)) == 3
    assert sent_by(lambda: members.slice(gpu=1).rank.call().get(timeout=WITHIN_S)) == 8
    assert sent_by(lambda: members.slice(hosts=3).rank.call().get(timeout=WITHIN_S)) == 1
    assert sent_by(lambda: members.rank.choose().get(timeout=WITHIN_S)) == 1
    assert values(members.all_heard.call().get(timeout=WITHIN_S)) == [[1]] * 8 * GPUS


def test_answers_of_views_are_in_the_order_of_the_view(attach: Attach) -> None:
    members = members_on(attach(4))
    expected = np.arange(4 * GPUS).reshape(4, GPUS)
    for hosts in (slice(None), slice(1, 3), slice(0, 4, 2), 2):
        for gpus in (slice(None), slice(1, 3), slice(0, 3, 2), 1):
            view = members.slice(hosts=hosts, gpu=gpus)
            if isinstance(hosts, int) and isinstance(gpus, int):
                continue
            answers = view.rank.call().get(timeout=WITHIN_S)
            assert values(answers) == expected[hosts, gpus].flatten().tolist()
            assert values(view.place.call().get(timeout=WITHIN_S)) == list(range(len(view)))
            assert sorted(future.get(timeout=WITHIN_S) for future in view.rank.stream()) == values(answers)


def test_casts_and_single_messages_arrive_in_the_order_in_which_they_were_sent(attach: Attach) -> None:
    members = members_on(attach(4))
    places = [members.slice(hosts=host, gpu=gpu) for host in range(4) for gpu in range(GPUS)]
    for number in range(50):
        members.hear.broadcast(3 * number)
        for place in places:
            place.hear.broadcast(3 * number + 1)
        members.slice(hosts=slice(1, 4)).hear.broadcast(3 * number + 2)
    heard = values(members.all_heard.call().get(timeout=WITHIN_S))
    first = [number for number in range(150) if number % 3 < 2]
    assert heard == [first] * GPUS + [list(range(150))] * 3 * GPUS


def test_casts_reach_actors_whose_start_they_follow_at_once(attach: Attach) -> None:
    hosts = attach(4)
    for _ in range(3):
        members = members_on(hosts)
        for number in range(5):
            members.hear.broadcast(number)
            members.slice(hosts=2, gpu=0).hear.broadcast(number)
        heard = values(members.all_heard.call().get(timeout=WITHIN_S))
        twice = sorted([*range(5), *range(5)])
        assert heard == [twice if rank == 2 * GPUS else list(range(5)) for rank in range(4 * GPUS)]


def test_exceptions_name_their_rank_and_the_others_answer(attach: Attach) -> None:
    members = members_on(attach(4))
    with pytest.raises(ActorError, match="rank 7 refuses"):
        members.fail_on.call([7]).get(timeout=WITHIN_S)
    outcomes: list[object] = []
    for future in members.fail_on.stream([2, 10]):
        try:
            outcomes.append(future.get(timeout=WITHIN_S))
        except ActorError as error:
            outcomes.append(str(error))
    failed = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert sorted(outcome for outcome in outcomes if isinstance(outcome, int)) == [
        rank for rank in range(4 * GPUS) if rank not in (2, 10)
    ]
    assert len(failed) == 2 and all(any(f"rank {rank} refuses" in text for text in failed) for rank in (2, 10))


def test_an_actor_on_a_host_casts_to_all_hosts(attach: Attach) -> None:
    members = members_on(attach(4))
    caller = members.slice(hosts=2, gpu=1)
    others = members.slice(hosts=slice(0, 2))
    assert caller.call_all.call_one(others).get(timeout=WITHIN_S) == list(range(2 * GPUS))
    # Now all ways are open: the client passes on one message to each host, and what comes back.
    heard = caller.tell_all.call_one(others, 20).get(timeout=WITHIN_S)
    assert heard == [list(range(40))] * 2 * GPUS
    sent = sent_by(lambda: caller.call_all.call_one(others).get(timeout=WITHIN_S))
    # The request to the caller, the cast to two hosts, and at most an answer of each member back to it.
    assert 4 <= sent <= 3 + 2 * GPUS


def test_an_actor_on_the_clients_host_casts_to_hosts(attach: Attach) -> None:
    members = members_on(attach(3))
    procs = this_host().spawn_procs(name="near")
    near: Any = procs.spawn("near", Member)
    assert near.call_all.call_one(members).get(timeout=WITHIN_S) == list(range(3 * GPUS))
    assert near.tell_all.call_one(members, 10).get(timeout=WITHIN_S) == [list(range(20))] * 3 * GPUS
    assert sent_by(lambda: near.call_all.call_one(members).get(timeout=WITHIN_S)) == 3
    procs.stop().get(timeout=WITHIN_S)


def test_answers_that_come_together_leave_a_host_in_one_frame(
    attach: Attach, start_host: Start, tmp_path: Path
) -> None:
    program = start_host()
    members = members_on(attach([program.address]))
    # The first call went before the host was attached: to each on its own.
    for _ in range(2):
        members.rank.call().get(timeout=WITHIN_S)
    ready, are_ready = Channel.open()
    call = members.answer_while_stopped.call(program.process.pid, ready, str(tmp_path))
    for _ in range(GPUS):
        are_ready.recv().get(timeout=WITHIN_S)
    before = frames()[1]
    # Whoever passes on what they answer does nothing until all have answered.
    os.kill(program.process.pid, signal.SIGSTOP)
    eventually(lambda: len(list(tmp_path.glob("answered-*"))) == GPUS, "all have answered")
    os.kill(program.process.pid, signal.SIGCONT)
    assert values(call.get(timeout=WITHIN_S)) == list(range(GPUS))
    assert frames()[1] - before == 1


@pytest.mark.parametrize("kind", [np.uint8, np.int64])
def test_large_values_go_to_each_host_once_and_are_each_members_own(attach: Attach, kind: Any) -> None:
    members = members_on(attach(3))
    members.rank.call().get(timeout=WITHIN_S)
    array = np.ones(300_000, kind)
    assert sent_by(lambda: members.keep.call(array).get(timeout=WITHIN_S)) == 3
    totals = values(members.kept_sum.call().get(timeout=WITHIN_S))
    assert totals == [300_000 * (1 + rank) for rank in range(3 * GPUS)]
    assert int(array.sum()) == 300_000


def test_a_process_that_dies_in_a_cast_is_named_and_the_others_answer(
    attach: Attach, faults: list[MeshFailure]
) -> None:
    members = members_on(attach(4))
    with pytest.raises(SupervisionError, match=r"workers\[hosts=1, gpu=2\]"):
        members.end_on.call([5]).get(timeout=WITHIN_S)
    eventually(lambda: faults, "the owner is told")
    answered = []
    for future in members.rank.stream():
        try:
            answered.append(future.get(timeout=WITHIN_S))
        except SupervisionError as error:
            assert "workers[hosts=1, gpu=2]" in str(error)
    assert sorted(answered) == [rank for rank in range(4 * GPUS) if rank != 5]


def test_an_actor_that_casts_hears_of_the_end_of_a_member_on_another_host(
    attach: Attach, faults: list[MeshFailure]
) -> None:
    members = members_on(attach(4))
    caller = members.slice(hosts=3, gpu=0)
    others = members.slice(hosts=slice(0, 3))
    assert caller.call_all.call_one(others).get(timeout=WITHIN_S) == list(range(3 * GPUS))
    said = caller.call_to_end.call_one(others, [4]).get(timeout=WITHIN_S)
    assert "SupervisionError" in said and "workers[hosts=1, gpu=1]" in said and "SIGKILL" in said
    eventually(lambda: faults, "the owner is told")


def test_a_gateway_that_is_killed_amid_casts_fails_them_for_its_members_alone(
    attach: Attach, start_host: Start, faults: list[MeshFailure]
) -> None:
    programs = start_together(start_host, 4)
    members = members_on(attach([program.address for program in programs]))
    members.rank.call().get(timeout=WITHIN_S)
    os.kill(programs[2].process.pid, signal.SIGSTOP)
    for number in range(20):
        members.hear.broadcast(number)
    calls = [members.rank.stream() for _ in range(10)]
    programs[2].kill()
    lost = range(2 * GPUS, 3 * GPUS)
    for call in calls:
        answered, failed = [], []
        for future in call:
            try:
                answered.append(future.get(timeout=WITHIN_S))
            except SupervisionError as error:
                failed.append(str(error))
        assert sorted(answered) == [rank for rank in range(4 * GPUS) if rank not in lost]
        assert len(failed) == GPUS
        assert all(
            any(f"workers[hosts=2, gpu={gpu}]" in text and "lost" in text for text in failed) for gpu in range(GPUS)
        )
    for part in (slice(0, 2), 3):
        heard = values(members.slice(hosts=part).all_heard.call().get(timeout=WITHIN_S))
        assert heard == [list(range(20))] * len(heard)
    eventually(lambda: sum(len(failure.ranks) for failure in faults) == GPUS, "the owner is told of each")


def test_casts_reach_what_was_respawned_and_nobody_twice(attach: Attach, faults: list[MeshFailure]) -> None:
    procs = attach(4).spawn_procs({"gpu": GPUS}, name="workers")
    members: Any = procs.spawn("members", Member)
    pids = values(members.pid.call().get(timeout=WITHIN_S))
    for rank in (1, 7):
        os.kill(pids[rank], signal.SIGKILL)
    eventually(lambda: sum(len(failure.ranks) for failure in faults) == 2, "the owner is told of both")
    members.hear.broadcast(1)
    procs.respawn().get(timeout=WITHIN_S)
    members.respawn().get(timeout=WITHIN_S)
    assert sent_by(lambda: members.hear.broadcast(2)) == 4
    heard = values(members.all_heard.call().get(timeout=WITHIN_S))
    assert heard == [[2] if rank in (1, 7) else [1, 2] for rank in range(4 * GPUS)]
    # Also for an actor that knew their predecessors.
    caller = members.slice(hosts=3, gpu=0)
    others = members.slice(hosts=slice(0, 3))
    assert caller.call_all.call_one(others).get(timeout=WITHIN_S) == list(range(3 * GPUS))


def test_casts_to_a_mesh_that_was_stopped_say_so(attach: Attach) -> None:
    procs = attach(4).spawn_procs({"gpu": GPUS}, name="workers")
    members: Any = procs.spawn("members", Member)
    members.rank.call().get(timeout=WITHIN_S)
    procs.stop().get(timeout=WITHIN_S)
    with pytest.raises(SupervisionError):
        members.rank.call().get(timeout=WITHIN_S)


def test_ports_that_travel_with_a_cast_get_a_message_of_each_member(attach: Attach) -> None:
    members = members_on(attach(4))
    port, receiver = Channel.open()
    members.send_rank.broadcast(port)
    assert sorted(receiver.recv().get(timeout=WITHIN_S) for _ in range(4 * GPUS)) == list(range(4 * GPUS))
