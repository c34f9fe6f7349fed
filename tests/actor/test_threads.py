"""Threads: those of an actor are the actor's, those of the program are the program's."""

from __future__ import annotations

import _thread
import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import eventually
from monarch.actor import Actor, MeshFailure, ProcMesh, concurrent_endpoint, context, current_rank, endpoint, this_proc
from sample_actors import Echo

WITHIN_S = 20.0

Where = tuple[str, dict[str, int]]

# One for all actors of a process.
shared = ThreadPoolExecutor(1)


def where() -> Where:
    return context().actor_instance.name, dict(current_rank())


def where_or_why_not() -> Any:
    try:
        return where()
    except RuntimeError as error:
        return str(error)


class Result:
    """What a function gives in a thread that a test starts."""

    def __init__(self, start: Callable[[Callable[[], None]], object], function: Callable[[], Any] = where) -> None:
        self._done = threading.Event()
        self._function = function
        start(self._run)
        assert self._done.wait(WITHIN_S)

    def _run(self) -> None:
        self.value = self._function()
        self._done.set()


class Subclass(threading.Thread):
    """With a `run` of its own."""

    def run(self) -> None:
        self.found = where()


class Threads(Actor):
    """Starts threads in every way there is."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(1)
        self.in_constructor = Result(lambda run: threading.Thread(target=run).start()).value

    @endpoint
    def here(self) -> Where:
        return where()

    @endpoint
    def constructor(self) -> Where:
        return self.in_constructor

    @endpoint
    def thread(self) -> Where:
        return Result(lambda run: threading.Thread(target=run).start()).value

    @endpoint
    def timer(self) -> Where:
        return Result(lambda run: threading.Timer(0, run).start()).value

    @endpoint
    def subclass(self) -> Where:
        thread = Subclass()
        thread.start()
        thread.join(WITHIN_S)
        return thread.found

    @endpoint
    def thread_of_a_thread(self) -> Where:
        def nested() -> Where:
            return Result(lambda run: threading.Thread(target=run).start()).value

        return Result(lambda run: threading.Thread(target=run).start(), nested).value

    @endpoint
    def own_executor(self) -> Where:
        return self.executor.submit(where).result(WITHIN_S)

    @endpoint
    def shared_executor(self) -> Where:
        return shared.submit(where).result(WITHIN_S)

    @endpoint
    def raw_thread(self) -> str:
        return Result(lambda run: _thread.start_new_thread(run, ()), where_or_why_not).value

    @endpoint
    def callback(self) -> Where:
        echo = this_proc().spawn("echo", Echo)
        return Result(lambda run: echo.echo.call_one(1).add_done_callback(lambda _: run())).value

    @endpoint
    def spawn_from_thread(self) -> str:
        def spawn() -> Any:
            return this_proc().spawn("spawned", Failing)

        self.spawned = Result(lambda run: threading.Thread(target=run).start(), spawn).value
        return self.spawned.creator.call_one().get(timeout=WITHIN_S)

    @endpoint
    def let_it_fail(self) -> None:
        self.spawned.fail.broadcast()

    @endpoint
    def failures(self) -> int:
        return len(self.seen)

    seen: tuple[MeshFailure, ...] = ()

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.seen = (*self.seen, failure)
        return True


class Failing(Actor):
    @endpoint
    def creator(self) -> str:
        creator = context().actor_instance.creator
        assert creator is not None
        return creator.name

    @endpoint
    def fail(self) -> None:
        raise ValueError("on purpose")


class AsyncThreads(Actor):
    @concurrent_endpoint
    async def to_thread(self) -> Where:
        return await asyncio.to_thread(where)

    @concurrent_endpoint
    async def run_in_executor(self) -> Where:
        return await asyncio.get_running_loop().run_in_executor(None, where)


@pytest.fixture(scope="module")
def threads(grid: ProcMesh) -> Threads:
    return grid.spawn("threads", Threads)


@pytest.mark.parametrize(
    "how", ["thread", "timer", "subclass", "thread_of_a_thread", "own_executor", "shared_executor", "callback"]
)
def test_a_thread_that_an_actor_starts_is_the_actors(threads: Threads, how: str) -> None:
    for _ in range(2):
        found = getattr(threads.slice(row=1), how).call().get(timeout=WITHIN_S)
        assert list(found.values()) == [("threads", {"col": 0}), ("threads", {"col": 1})]


def test_a_thread_that_a_constructor_starts_is_the_actors(threads: Threads) -> None:
    found = threads.constructor.call().get(timeout=WITHIN_S)
    assert found.item(row=1, col=0) == ("threads", {"row": 1, "col": 0})


def test_work_in_an_executor_belongs_to_who_submits_it(grid: ProcMesh, threads: Threads) -> None:
    other = grid.spawn("other", Threads)
    for mesh, name in ((threads, "threads"), (other, "other"), (threads, "threads")):
        found = mesh.shared_executor.call().get(timeout=WITHIN_S)
        assert {name for name, _ in found.values()} == {name}
        # The view that was addressed, at every call anew.
        assert mesh.slice(row=0, col=0).shared_executor.call_one().get(timeout=WITHIN_S) == (name, {})


@pytest.mark.parametrize("how", ["to_thread", "run_in_executor"])
def test_an_event_loops_threads_are_the_actors(grid: ProcMesh, how: str) -> None:
    mesh = grid.spawn("async", AsyncThreads)
    found = getattr(mesh.slice(row=1), how).call().get(timeout=WITHIN_S)
    assert list(found.values()) == [("async", {"col": 0}), ("async", {"col": 1})]


def test_a_thread_that_nobody_known_starts_says_what_to_do(threads: Threads) -> None:
    why = threads.slice(row=0, col=0).raw_thread.call_one().get(timeout=WITHIN_S)
    assert "no actor is running in this thread" in why and "copy_context" in why


def test_what_a_thread_of_an_actor_spawns_is_the_actors(one: ProcMesh) -> None:
    threads = one.spawn("owner", Threads)
    assert threads.spawn_from_thread.call_one().get(timeout=WITHIN_S) == "owner"
    threads.let_it_fail.call_one().get(timeout=WITHIN_S)
    eventually(lambda: threads.failures.call_one().get(timeout=WITHIN_S) == 1, "the owner is told")


def test_threads_that_use_the_api_first_at_once_are_one_client(run_program: Callable[..., Any]) -> None:
    code = """
import threading
from monarch.actor import context, this_host, this_proc

together = threading.Barrier(8)
found = []

def use():
    together.wait()
    found.append((context().actor_instance.actor_id, this_host(), this_proc()))

threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found), len(set(found)), found[0][0] == context().actor_instance.actor_id)
"""
    done = run_program("-c", code)
    assert (done.stdout, done.stderr) == ("8 1 True\n", "")
