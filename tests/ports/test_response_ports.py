"""Endpoints that answer by a port: later, from elsewhere, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import eventually
from monarch.actor import ActorError, Channel, ProcMesh, SupervisionError, send
from port_actors import AsyncServer, Sender, Server

WITHIN_S = 20


@pytest.fixture(scope="module")
def server(one: ProcMesh) -> Any:
    return one.spawn("server", Server)


@pytest.fixture(scope="module")
def servers(grid: ProcMesh) -> Any:
    return grid.spawn("servers", Server)


def test_c3_an_endpoint_answers_later(server: Any) -> None:
    pending = [server.wait_for_news.call_one() for _ in range(3)]
    assert server.publish.call_one("hi").get(timeout=WITHIN_S) == 3
    assert [future.get(timeout=WITHIN_S) for future in pending] == ["hi"] * 3


def test_each_rank_of_a_call_answers_by_its_own_port(servers: Any) -> None:
    news = servers.wait_for_news.call()
    servers.publish.call("all").get(timeout=WITHIN_S)
    assert list(news.get(timeout=WITHIN_S).values()) == ["all"] * 4


def test_a_port_may_be_passed_on_to_another_actor(server: Any, grid: ProcMesh) -> None:
    senders = grid.flatten("rank").spawn("senders", Sender)
    assert server.through.call_one(senders.slice(rank=2)).get(timeout=WITHIN_S) == 7


def test_the_caller_may_answer_itself(server: Any) -> None:
    news = server.wait_for_news.call_one()
    (port,) = server.hand_over.call_one().get(timeout=WITHIN_S)
    assert not news.done()
    port.send("mine")
    assert news.get(timeout=WITHIN_S) == "mine"


@pytest.mark.parametrize("adverb", ["call_one", "choose"])
def test_the_first_of_two_answers_counts_and_the_actor_lives(server: Any, adverb: str) -> None:
    assert getattr(server.twice, adverb)(1, 2).get(timeout=WITHIN_S) == 1
    assert server.ping.call_one().get(timeout=WITHIN_S) == "pong"


def test_each_rank_has_one_place_in_a_stream_and_a_call(servers: Any) -> None:
    assert list(servers.twice.call(1, 2).get(timeout=WITHIN_S).values()) == [1] * 4
    assert [future.get(timeout=WITHIN_S) for future in servers.twice.stream(1, 2)] == [1] * 4


def test_an_exception_sent_by_the_port_is_raised_bare(server: Any) -> None:
    with pytest.raises(KeyError) as caught:
        server.refuse.call_one().get(timeout=WITHIN_S)
    assert type(caught.value) is KeyError


def test_an_exception_that_escapes_goes_to_the_caller_and_the_actor_lives(server: Any) -> None:
    with pytest.raises(ActorError) as caught:
        server.raise_it.call_one().get(timeout=WITHIN_S)
    assert isinstance(caught.value, KeyError)
    assert server.ping.call_one().get(timeout=WITHIN_S) == "pong"


def test_a_port_that_is_dropped_without_an_answer_ends_the_wait(server: Any) -> None:
    news = server.wait_for_news.call_one()
    server.forget.call_one().get(timeout=WITHIN_S)
    with pytest.raises(ActorError, match="dropped without a send"):
        news.get(timeout=WITHIN_S)


def test_the_end_of_the_actor_that_keeps_the_port_ends_the_wait(spawn_procs: Any, faults: Any) -> None:
    server = spawn_procs(per_host={"gpus": 1}).spawn("mortal", Server)
    news = server.wait_for_news.call_one()
    with pytest.raises(SupervisionError):
        server.end.call_one().get(timeout=WITHIN_S)
    with pytest.raises(SupervisionError, match="SystemExit"):
        news.get(timeout=WITHIN_S)
    eventually(lambda: faults, "the program is told")


def test_the_stop_of_the_actor_that_keeps_the_port_ends_the_wait(one: ProcMesh) -> None:
    server = one.spawn("stopped", Server)
    news = server.wait_for_news.call_one()
    server.ping.call_one().get(timeout=WITHIN_S)
    server.stop("enough").get(timeout=WITHIN_S)
    with pytest.raises(SupervisionError, match="enough"):
        news.get(timeout=WITHIN_S)


def test_an_exception_that_escapes_after_the_port_was_passed_on_goes_to_the_caller(server: Any) -> None:
    port, receiver = Channel[Any].open()
    future = server.pass_on_and_raise.call_one(port)
    passed = receiver.recv().get(timeout=WITHIN_S)
    with pytest.raises(KeyError, match="in time"):
        future.get(timeout=WITHIN_S)
    passed.send(1)
    assert server.ping.call_one().get(timeout=WITHIN_S) == "pong"


def test_an_exception_that_escapes_after_the_answer_fails_the_actor(one: ProcMesh, faults: Any) -> None:
    server = one.spawn("failed", Server)
    assert server.answer_and_raise.call_one().get(timeout=WITHIN_S) == 1
    with pytest.raises(SupervisionError, match="too late"):
        server.ping.call_one().get(timeout=WITHIN_S)
    eventually(lambda: faults, "the program is told")


def test_the_port_of_a_broadcast_leads_nowhere(server: Any) -> None:
    server.twice.broadcast(1, 2)
    server.refuse.broadcast()
    assert server.ping.call_one().get(timeout=WITHIN_S) == "pong"


def test_arguments_are_checked_without_the_port(server: Any) -> None:
    with pytest.raises(TypeError, match="second"):
        server.twice.call_one(1)
    with pytest.raises(TypeError):
        server.refuse.call_one(1)


def test_answers_by_port_can_go_to_a_channel(servers: Any) -> None:
    port, receiver = Channel[int].open_ranked()
    send(servers.twice, (1, 2), {}, port=port)
    assert sorted(receiver.recv().get(timeout=WITHIN_S) for _ in range(4)) == [(rank, 1) for rank in range(4)]


@pytest.mark.parametrize("way", ["from_a_task", "concurrently"])
def test_async_endpoints_answer_by_port(one: ProcMesh, way: str) -> None:
    server = one.spawn("async_server", AsyncServer)
    endpoint = getattr(server, way)
    futures = [endpoint.call_one(value) for value in range(10)]
    assert [future.get(timeout=WITHIN_S) for future in futures] == list(range(10))
