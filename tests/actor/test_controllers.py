"""Controllers: actors of which the whole program has one for each name."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import eventually
from monarch.actor import (
    Actor,
    ActorError,
    Future,
    ProcMesh,
    SupervisionError,
    context,
    endpoint,
    get_or_spawn_controller,
    this_proc,
)
from sample_actors import Echo

WITHIN_S = 20.0


class Counter(Actor):
    def __init__(self, start: int = 0) -> None:
        self.n = start

    @endpoint
    def next(self) -> int:
        self.n += 1
        return self.n

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def path(self) -> str:
        return repr(context().actor_instance)

    @endpoint
    def die(self) -> None:
        raise SystemExit(1)


class Other(Counter):
    pass


class FailsAtFirst(Counter):
    """Its first constructor fails, further ones do not."""

    def __init__(self, path: str) -> None:
        super().__init__()
        if not os.path.exists(path):
            open(path, "w").close()
            raise ValueError("the first one fails")


class Delegates(Actor):
    """Its constructor needs another controller."""

    def __init__(self, name: str) -> None:
        self.counter = get_or_spawn_controller(name, Counter, 100).get(timeout=WITHIN_S)

    @endpoint
    def next(self) -> int:
        return self.counter.next.call_one().get(timeout=WITHIN_S)


class Customer(Actor):
    @endpoint
    async def fetch(self, name: str) -> int:
        counter = await get_or_spawn_controller(name, Counter)
        return await counter.next.call_one()

    @endpoint
    def fetch_from_nested(self, name: str) -> int:
        nested = this_proc().spawn("nested", Customer)
        return nested.fetch.call_one(name).get(timeout=WITHIN_S)

    @endpoint
    async def get(self, name: str, cls: type[Any]) -> Any:
        return await get_or_spawn_controller(name, cls)


def get(future: Future[Any]) -> Any:
    return future.get(timeout=WITHIN_S)


def test_line_22_the_program_and_all_actors_share_one_in_the_program_process(grid: ProcMesh) -> None:
    customers = grid.spawn("customers", Customer)
    values = sorted(get(customers.fetch.call("shared")).values())
    counter = get(get_or_spawn_controller("shared", Counter))
    assert values == [1, 2, 3, 4]
    assert get(counter.next.call_one()) == 5
    assert get(customers.slice(row=0, col=0).fetch_from_nested.call_one("shared")) == 6
    assert get(counter.pid.call_one()) == os.getpid()
    assert get(counter.path.call_one()).startswith("<root>.<controllers>.<")


def test_arguments_count_where_it_is_made_and_not_later() -> None:
    assert get(get(get_or_spawn_controller("arguments", Counter, 10)).next.call_one()) == 11
    assert get(get(get_or_spawn_controller("arguments", Counter, 99)).next.call_one()) == 12


def test_threads_that_ask_at_once_get_the_same_one() -> None:
    found: list[int] = []

    def ask() -> None:
        found.append(get(get(get_or_spawn_controller("at once", Counter)).next.call_one()))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 9))


def test_another_class_under_the_name_is_a_type_error(one: ProcMesh) -> None:
    get(get_or_spawn_controller("typed", Counter))
    with pytest.raises(TypeError, match=r"controller 'typed' is a .*\.Counter, not a .*\.Other: use another") as caught:
        get(get_or_spawn_controller("typed", Other))
    assert isinstance(caught.value, ActorError)
    with pytest.raises(TypeError, match="use another name"):
        get(one.spawn("customer", Customer).get.call_one("typed", Other))


def test_one_that_failed_is_made_anew_and_its_failure_is_nobody_elses(capfd: pytest.CaptureFixture[str]) -> None:
    other = get(get_or_spawn_controller("beside", Counter))
    neighbour = this_proc().spawn("neighbour", Echo)
    for _ in range(3):
        failing = get(get_or_spawn_controller("failing", Counter))
        assert get(failing.next.call_one()) == 1
        with pytest.raises(SupervisionError, match="SystemExit"):
            get(failing.die.call_one())
    assert get(get(get_or_spawn_controller("failing", Counter)).next.call_one()) == 1
    assert get(other.next.call_one()) == 1
    assert get(neighbour.echo.call_one(1)) == 1
    assert get(this_proc().spawn("later", Echo).echo.call_one(2)) == 2
    eventually(lambda: "a controller failed" in capfd.readouterr().err, "the failure is told")


def test_a_constructor_that_fails_is_told_to_who_calls_and_tried_again(tmp_path: Any) -> None:
    path = str(tmp_path / "failed")
    first = get(get_or_spawn_controller("fails at first", FailsAtFirst, path))
    with pytest.raises(SupervisionError, match="the first one fails") as caught:
        get(first.next.call_one())
    assert "in __init__" in str(caught.value)
    second = get(get_or_spawn_controller("fails at first", FailsAtFirst, path))
    assert get(second.next.call_one()) == 1


def test_a_constructor_may_ask_for_another_one() -> None:
    assert get(get(get_or_spawn_controller("delegates", Delegates, "needed")).next.call_one()) == 101


def test_a_wrong_class_or_wrong_arguments_are_actor_errors() -> None:
    with pytest.raises(ValueError, match="has to be a class derived from") as no_actor:
        get(get_or_spawn_controller("wrong", dict))
    with pytest.raises(TypeError, match="too many positional arguments") as too_many:
        get(get_or_spawn_controller("wrong", Counter, 1, 2, 3))
    assert isinstance(no_actor.value, ActorError) and isinstance(too_many.value, ActorError)
    with pytest.raises(TypeError, match="has to be a string"):
        get_or_spawn_controller(3, Counter)  # type: ignore[arg-type]


def test_it_cannot_be_stopped_by_who_uses_it() -> None:
    with pytest.raises(NotImplementedError, match="only the actor mesh that `spawn` returned"):
        get(get_or_spawn_controller("used", Counter)).stop()


def test_a_class_of_the_main_program_is_one_class_wherever_it_is_named(run_program: Callable[..., Any]) -> None:
    code = """
from monarch.actor import Actor, endpoint, get_or_spawn_controller, this_host

class Counter(Actor):
    def __init__(self):
        self.n = 0
    @endpoint
    def next(self):
        self.n += 1
        return self.n

class Customer(Actor):
    @endpoint
    async def fetch(self):
        return await (await get_or_spawn_controller("counter", Counter)).next.call_one()

customers = this_host().spawn_procs({"gpus": 3}).spawn("customers", Customer)
counter = get_or_spawn_controller("counter", Counter).get()
print(sorted([counter.next.call_one().get(), *customers.fetch.call().get().values()]))
"""
    done = run_program("-c", code)
    assert (done.stdout, done.stderr) == ("[1, 2, 3, 4]\n", "")
