"""Channels: messages from real processes, in order, none lost."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest
from conftest import eventually
from monarch.actor import (
    Accumulator,
    ActorError,
    Channel,
    MeshFailure,
    Port,
    ProcMesh,
    SupervisionError,
    as_endpoint,
    send,
)
from port_actors import AsyncReceiver, Sender

WITHIN_S = 20


@pytest.fixture(scope="module")
def senders(grid: ProcMesh) -> Any:
    return grid.flatten("rank").spawn("senders", Sender)


@pytest.fixture(scope="module")
def sender(one: ProcMesh) -> Any:
    return one.spawn("sender", Sender)


def received(receiver: Any, count: int) -> list[Any]:
    return [receiver.recv().get(timeout=WITHIN_S) for _ in range(count)]


def failed_ranks(faults: list[MeshFailure]) -> set[int]:
    return {point.rank for failure in faults for point in failure.ranks}


def test_messages_of_one_sender_arrive_in_order(sender: Any) -> None:
    port, receiver = Channel[int].open()
    sender.send.broadcast(port, *range(500))
    assert received(receiver, 500) == list(range(500))


def test_messages_of_each_sender_keep_their_order(senders: Any) -> None:
    port, receiver = Channel[tuple[int, int]].open()
    for rank in range(4):
        senders.slice(rank=rank).send.broadcast(port, *((rank, i) for i in range(200)))
    found = received(receiver, 800)
    for rank in range(4):
        assert [i for at, i in found if at == rank] == list(range(200))


def test_a_sent_value_is_a_snapshot() -> None:
    port, receiver = Channel[list[int]].open()
    value = [1]
    port.send(value)
    value.append(2)
    assert receiver.recv().get(timeout=WITHIN_S) == [1]


def test_line_8_mutating_an_argument_after_broadcast_is_invisible_to_the_receiver(sender: Any) -> None:
    port, receiver = Channel[list[int]].open()
    values = [1]
    sender.send.broadcast(port, values)
    values.append(2)
    assert receiver.recv().get(timeout=WITHIN_S) == [1]


def test_a_value_that_cannot_be_pickled_raises_at_the_send_and_sends_nothing() -> None:
    port, receiver = Channel[Any].open()
    with pytest.raises(TypeError):
        port.send(threading.Lock())
    port.send(1)
    assert receiver.recv().get(timeout=WITHIN_S) == 1


def test_line_19_a_port_sent_through_two_hops_delivers_to_the_opener(senders: Any) -> None:
    port, receiver = Channel[str].open()
    senders.slice(rank=0).pass_on.call_one(senders.slice(rank=1), port, "far").get(timeout=WITHIN_S)
    assert receiver.recv().get(timeout=WITHIN_S) == "far"


def test_line_19_an_exception_sent_through_a_port_is_raised_bare(sender: Any) -> None:
    port, receiver = Channel[Any].open()
    sender.send_error.call_one(port, KeyError("k")).get(timeout=WITHIN_S)
    future = receiver.recv()
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            future.get(timeout=WITHIN_S)
        assert type(caught.value) is KeyError
        assert caught.value.args == ("k",)


def test_a_port_pickles_small_and_works_where_it_arrives() -> None:
    port, receiver = Channel[str].open()
    pickled = pickle.dumps(port)
    assert len(pickled) < 200
    pickle.loads(pickled).send("copy")
    assert receiver.recv().get(timeout=WITHIN_S) == "copy"


def test_large_values_arrive_whole(sender: Any) -> None:
    port, receiver = Channel[bytearray].open()
    sender.send.broadcast(port, bytearray(b"x" * 3_000_000))
    assert receiver.recv().get(timeout=WITHIN_S) == b"x" * 3_000_000


def test_a_request_that_timed_out_may_be_repeated() -> None:
    port, receiver = Channel[int].open()
    future = receiver.recv()
    for timeout in (0, 0.01):
        with pytest.raises(TimeoutError):
            future.get(timeout=timeout)
    port.send(1)
    assert future.get(timeout=WITHIN_S) == 1


def test_a_request_that_timed_out_leaves_its_message_to_the_next() -> None:
    port, receiver = Channel[int].open()
    given_up = receiver.recv()
    with pytest.raises(TimeoutError):
        given_up.get(timeout=0.01)
    port.send(1)
    port.send(2)
    assert receiver.recv().get(timeout=WITHIN_S) == 1
    assert given_up.get(timeout=WITHIN_S) == 2


def test_an_abandoned_request_leaves_its_message_to_the_next() -> None:
    port, receiver = Channel[int].open()
    first, second = receiver.recv(), receiver.recv()
    port.send(1)
    assert first.done()
    del first
    gc.collect()
    assert second.get(timeout=WITHIN_S) == 1


def test_a_cancelled_request_leaves_its_message_to_the_next() -> None:
    port, receiver = Channel[int].open()
    first, second = receiver.recv(), receiver.recv()
    assert first.cancel()
    port.send(1)
    assert second.get(timeout=WITHIN_S) == 1
    with pytest.raises(CancelledError):
        first.get()


def test_requests_are_served_in_their_order_whoever_looks_first() -> None:
    port, receiver = Channel[int].open()
    futures = [receiver.recv() for _ in range(5)]
    for value in range(5):
        port.send(value)
    assert [future.get(timeout=WITHIN_S) for future in reversed(futures)] == [4, 3, 2, 1, 0]


def test_many_threads_that_wait_get_each_message_once(senders: Any) -> None:
    port, receiver = Channel[int].open()
    found: list[int] = []

    def receive() -> None:
        for _ in range(100):
            found.append(receiver.recv().get(timeout=WITHIN_S))

    threads = [threading.Thread(target=receive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for rank in range(4):
        senders.slice(rank=rank).send.broadcast(port, *range(rank * 100, rank * 100 + 100))
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(400))


def test_a_thread_that_blocks_and_an_event_loop_wait_side_by_side(sender: Any) -> None:
    port, receiver = Channel[int].open()
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(receiver.recv().get(timeout=WITHIN_S)))
    thread.start()

    async def receive() -> int:
        request = asyncio.ensure_future(receiver.recv().as_asyncio())
        await asyncio.sleep(0)
        sender.send.broadcast(port, 1, 2)
        return await request

    found.append(asyncio.run(receive()))
    thread.join()
    assert sorted(found) == [1, 2]


def test_a_callback_runs_when_a_message_comes() -> None:
    port, receiver = Channel[int].open()
    called = threading.Event()
    future = receiver.recv()
    future.add_done_callback(lambda _: called.set())
    assert not future.done()
    port.send(1)
    assert called.wait(WITHIN_S)
    assert future.get() == 1


@pytest.mark.parametrize("way", ["collect", "iterate"])
def test_an_async_actor_receives_on_its_event_loop(one: ProcMesh, sender: Any, way: str) -> None:
    actor = one.spawn("receiver", AsyncReceiver)
    values = list(range(100))
    assert getattr(actor, way).call_one(sender, values).get(timeout=WITHIN_S) == values


def test_cancelled_awaits_lose_no_message(one: ProcMesh, sender: Any) -> None:
    actor = one.spawn("receiver", AsyncReceiver)
    assert actor.cancelled_requests_lose_nothing.call_one(sender).get(timeout=WITHIN_S) == [1, 2]


def test_a_wait_for_that_timed_out_loses_no_message() -> None:
    async def program() -> int:
        port, receiver = Channel[int].open()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(receiver.recv().as_asyncio(), 0.01)
        port.send(1)
        return await receiver.recv()

    assert asyncio.run(program()) == 1


@pytest.mark.parametrize("way", ["recv", "as_asyncio"])
def test_a_wait_for_whose_time_ends_just_when_the_message_is_there_loses_nothing(way: str) -> None:
    port, receiver = Channel[str].open()

    async def program() -> None:
        loop = asyncio.get_running_loop()
        requests = [receiver.recv()]
        awaitable: Any = requests[0] if way == "recv" else requests[0].as_asyncio()
        wait = asyncio.ensure_future(asyncio.wait_for(awaitable, 0.2))
        del awaitable
        await asyncio.sleep(0)
        deadline = loop.time() + 0.3

        def send_and_go_on() -> None:
            port.send("message")
            eventually(requests[0].done, "the message is there")
            requests.clear()  # who holds on to the request reserves its message
            loop.call_soon(wait_past_the_deadline)

        def wait_past_the_deadline() -> None:
            while loop.time() < deadline:
                pass

        # The loop sees the message, and in its next round, before anybody could take it, the end of the time.
        loop.call_soon(send_and_go_on)
        try:
            found.append(await wait)
        except asyncio.TimeoutError:
            found.append(await receiver.recv())

    found: list[str] = []
    asyncio.run(asyncio.wait_for(program(), WITHIN_S))
    assert found == ["message"]


def test_a_future_of_asyncio_takes_its_message_when_it_is_looked_at() -> None:
    async def program() -> None:
        port, receiver = Channel[int].open()
        first, second, third = (receiver.recv().as_asyncio() for _ in range(3))
        for value in range(4):
            port.send(value)
        await asyncio.wait([first, second, third])
        assert second.result() == second.result() == 1
        assert third.exception() is None
        assert (await third, await third) == (2, 2)
        assert not first.cancel()
        del first
        gc.collect()
        assert [await receiver.recv(), await receiver.recv()] == [0, 3]
        port.exception(KeyError("k"))
        failed = receiver.recv().as_asyncio()
        await asyncio.wait([failed])
        assert isinstance(failed.exception(), KeyError)
        with pytest.raises(KeyError):
            await failed

    asyncio.run(program())


def test_a_future_of_asyncio_that_is_cancelled_leaves_its_message() -> None:
    async def program() -> None:
        port, receiver = Channel[int].open()
        cancelled = receiver.recv().as_asyncio()
        waits = [asyncio.ensure_future(_value(cancelled)) for _ in range(2)]
        await asyncio.sleep(0)
        assert cancelled.cancel()
        await asyncio.wait(waits)
        assert [wait.cancelled() for wait in waits] == [True, True]
        port.send(1)
        assert await receiver.recv() == 1

    asyncio.run(program())


async def _value(awaitable: Any) -> Any:
    return await awaitable


def test_a_once_channel_takes_one_message() -> None:
    port, receiver = Channel[int].open(once=True)
    copy = pickle.loads(pickle.dumps(port))
    port.send(1)
    with pytest.raises(RuntimeError, match="once=True"):
        port.send(2)
    copy.send(3)
    assert receiver.recv().get(timeout=WITHIN_S) == 1
    with pytest.raises(ValueError, match="once=True"):
        receiver.recv()


def test_a_message_to_a_receiver_that_is_gone_is_lost_without_a_fault() -> None:
    port, receiver = Channel[int].open()
    del receiver
    gc.collect()
    port.send(1)


def test_receivers_cannot_be_pickled_and_ports_not_be_made() -> None:
    _, receiver = Channel[int].open()
    for one_of_two in (receiver, receiver.ranked()):
        with pytest.raises(TypeError, match="send the port"):
            pickle.dumps(one_of_two)
    with pytest.raises(TypeError, match=r"Channel\.open"):
        Port()


def test_a_reduced_channel_folds_what_is_there(senders: Any) -> None:
    port, receiver = Channel[int].open_reduced(lambda total, value: total + value, 0)
    senders.send.call(port, 1, 2, 3).get(timeout=WITHIN_S)
    total = 0
    while total < 24:
        total += receiver.recv().get(timeout=WITHIN_S)
    assert total == 24
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=0)


def test_a_reduced_channel_raises_an_exception_in_its_place() -> None:
    port, receiver = Channel[int].open_reduced(lambda total, value: total + value, 0)
    port.send(1)
    port.send(2)
    port.exception(KeyError("k"))
    port.send(4)
    assert receiver.recv().get(timeout=WITHIN_S) == 3
    with pytest.raises(KeyError):
        receiver.recv().get(timeout=WITHIN_S)
    assert receiver.recv().get(timeout=WITHIN_S) == 4


# --- answers of endpoints -------------------------------------------------------------------------------------------


def test_c6_answers_go_to_a_port_and_ranked_receivers_learn_the_rank(senders: Any) -> None:
    port, receiver = Channel[int].open()
    send(senders.rank, (), {}, port=port)
    assert sorted(received(receiver, 4)) == [0, 1, 2, 3]
    ranked_port, ranked = Channel[int].open_ranked()
    send(senders.rank, (), {}, port=ranked_port)
    assert sorted(received(ranked, 4)) == [(rank, rank) for rank in range(4)]


def test_any_receiver_can_be_ranked(senders: Any) -> None:
    port, receiver = Channel[int].open()
    send(senders.rank, (), {}, port=port)
    assert sorted(received(receiver.ranked(), 4)) == [(rank, rank) for rank in range(4)]


def test_a_ranked_receiver_refuses_a_message_without_a_rank() -> None:
    port, receiver = Channel[int].open_ranked()
    port.send(1)
    with pytest.raises(ValueError, match="without a rank"):
        receiver.recv().get(timeout=WITHIN_S)


def test_line_20_send_to_a_chosen_one_gives_one_reply(senders: Any) -> None:
    port, receiver = Channel[int].open_ranked()
    send(senders.rank, (), {}, port=port, selection="choose")
    rank, value = receiver.recv().get(timeout=WITHIN_S)
    assert rank == value
    send(senders.rank, (), {}, port=port)  # whose answers come after a second one would have
    found = received(receiver, 4)
    assert sorted(found) == [(rank, rank) for rank in range(4)]


def test_line_20_send_to_another_selection_is_a_value_error(senders: Any) -> None:
    with pytest.raises(ValueError, match="Invalid selection: 'foo'"):
        send(senders.rank, (), {}, selection="foo")  # type: ignore[arg-type]


def test_send_without_a_port_is_a_broadcast(senders: Any) -> None:
    port, receiver = Channel[int].open()
    send(senders.send, (port, 5), {})
    assert received(receiver, 4) == [5] * 4
    send(senders.send, (port, 6), {}, selection="choose")
    assert receiver.recv().get(timeout=WITHIN_S) == 6


def test_exceptions_of_endpoints_arrive_as_actor_errors_and_the_actors_live(senders: Any) -> None:
    port, receiver = Channel[int].open()
    send(senders.fail_at, (2,), {}, port=port)
    found, errors = [], []
    for _ in range(4):
        try:
            found.append(receiver.recv().get(timeout=WITHIN_S))
        except ActorError as error:
            errors.append(error)
    assert sorted(found) == [0, 1, 3]
    assert isinstance(errors[0], KeyError)
    assert "senders.fail_at" in str(errors[0])
    assert list(senders.rank.call().get(timeout=WITHIN_S).values()) == [0, 1, 2, 3]


def test_an_actor_that_dies_instead_of_answering_is_reported_through_the_port(spawn_procs: Any, faults: Any) -> None:
    mesh = spawn_procs(per_host={"gpus": 1}).spawn("mortal", Sender)
    port, receiver = Channel[int].open()
    send(mesh.die, (), {}, port=port)
    with pytest.raises(SupervisionError, match=r"mortal\.die"):
        receiver.recv().get(timeout=WITHIN_S)
    eventually(lambda: faults, "the program is told")


# --- liveness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["die", "end"])
def test_a_receiver_whose_senders_are_all_gone_raises_after_their_messages(
    spawn_procs: Any, faults: Any, end: str
) -> None:
    mesh = spawn_procs(per_host={"gpus": 2}).spawn("mortal", Sender)
    port, receiver = Channel[int].open(senders=mesh)
    mesh.send.broadcast(port, 1)
    getattr(mesh, end).broadcast()
    assert received(receiver, 2) == [1, 1]
    for _ in range(2):
        with pytest.raises(SupervisionError, match="mortal"):
            receiver.recv().get(timeout=WITHIN_S)
    eventually(lambda: failed_ranks(faults) == {0, 1}, "the program is told")


def test_a_receiver_with_a_living_sender_goes_on(spawn_procs: Any, faults: Any) -> None:
    mesh = spawn_procs(per_host={"gpus": 2}).spawn("mortal", Sender)
    port, receiver = Channel[int].open(senders=mesh)
    with pytest.raises(SupervisionError):
        mesh.slice(gpus=0).die.call_one().get(timeout=WITHIN_S)
    mesh.slice(gpus=1).send.broadcast(port, 1)
    assert receiver.recv().get(timeout=WITHIN_S) == 1
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=0)
    eventually(lambda: faults, "the program is told")


def test_senders_have_to_be_an_actor_mesh(one: ProcMesh) -> None:
    with pytest.raises(TypeError, match="actor mesh"):
        Channel[int].open(senders=one)  # type: ignore[arg-type]


# --- folding calls, plain methods -----------------------------------------------------------------------------------


def test_line_21_an_accumulator_over_n_ranks_folds_exactly_n_values(senders: Any) -> None:
    accumulator = Accumulator(senders.rank, (), lambda found, value: (*found, value))
    assert sorted(accumulator.accumulate().get(timeout=WITHIN_S)) == [0, 1, 2, 3]


def test_an_accumulator_fails_with_the_first_rank_that_does(senders: Any) -> None:
    accumulator = Accumulator(senders.fail_at, 0, lambda total, value: total + value)
    with pytest.raises(KeyError) as caught:
        accumulator.accumulate(1).get(timeout=WITHIN_S)
    assert isinstance(caught.value, ActorError)


def test_a_plain_method_can_be_called_as_an_endpoint(senders: Any) -> None:
    double = as_endpoint(senders.double)
    assert list(double.call(4).get(timeout=WITHIN_S).values()) == [8] * 4
    assert as_endpoint(senders.slice(rank=1).double).call_one(5).get(timeout=WITHIN_S) == 10
    later = as_endpoint(senders.answer_later, explicit_response_port=True)
    assert list(later.call(3).get(timeout=WITHIN_S).values()) == [3] * 4


def test_the_actor_checks_the_arguments_of_a_plain_method(senders: Any) -> None:
    with pytest.raises(ActorError) as caught:
        as_endpoint(senders.double).choose(1, 2).get(timeout=WITHIN_S)
    assert isinstance(caught.value, TypeError)


def test_an_async_plain_method_of_an_actor_without_a_loop_is_refused(sender: Any) -> None:
    with pytest.raises(TypeError, match="no event loop"):
        as_endpoint(sender.wait).call_one().get(timeout=WITHIN_S)


def test_as_endpoint_wants_a_plain_method_of_spawned_actors(senders: Any) -> None:
    for wrong in (senders.rank, len, Sender.double, 3):
        with pytest.raises(ValueError, match="expected a method of a spawned actor"):
            as_endpoint(wrong)
