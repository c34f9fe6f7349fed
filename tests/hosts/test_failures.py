"""What ends on other hosts, and who hears of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import assert_gone, eventually, is_alive, marked_environment, marked_processes
from host_actors import Placed
from host_programs import HostProgram
from monarch.actor import ActorError, Channel, Future, HostMesh, MeshFailure, SupervisionError, attach_to_workers

Start = Callable[..., HostProgram]
Attach = Callable[..., HostMesh]


def _asleep(actor: Placed) -> tuple[Future[None], int]:
    """A call that is running, and the process that runs it."""
    port, receiver = Channel.open()
    call = actor.sleep.call_one(port)
    return call, receiver.recv().get(timeout=60)


def test_a_worker_that_is_killed_on_a_host_fails_the_call_that_waits(attach: Attach, faults: list[MeshFailure]) -> None:
    placed = attach(2).spawn_procs({"gpu": 2}, name="workers").spawn("placed", Placed)
    call, pid = _asleep(placed.slice(hosts=1, gpu=0))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(SupervisionError) as caught:
        call.get(timeout=60)
    for part in ("workers[hosts=1, gpu=0]", f"pid {pid} on {os.uname().nodename}", "SIGKILL"):
        assert part in str(caught.value)
    eventually(lambda: faults, "the owner is told")
    assert [(f.kind, [p.rank for p in f.ranks]) for f in faults] == [("signal", [2])]
    assert placed.slice(hosts=0).where.call().get(timeout=60).extent.sizes == (2,)


def test_a_host_that_is_killed_fails_all_calls_that_wait(
    attach: Attach, start_host: Start, faults: list[MeshFailure]
) -> None:
    programs = [start_host(), start_host()]
    hosts = attach([program.address for program in programs])
    placed = hosts.spawn_procs({"gpu": 2}, name="workers").spawn("placed", Placed)
    asleep = [_asleep(placed.slice(hosts=1, gpu=gpu)) for gpu in range(2)]
    programs[1].kill()
    for gpu, (call, pid) in enumerate(asleep):
        with pytest.raises(SupervisionError) as caught:
            call.get(timeout=60)
        for part in (f"workers[hosts=1, gpu={gpu}]", f"pid {pid} on {os.uname().nodename}", "was lost"):
            assert part in str(caught.value)
    eventually(lambda: sum(len(failure.ranks) for failure in faults) == 2, "the owner is told of both")
    assert {failure.kind for failure in faults} == {"host_lost"}
    assert_gone(lambda: [pid for _, pid in asleep if is_alive(pid)], "after their host's program was killed")
    assert placed.slice(hosts=0).where.call().get(timeout=60).extent.sizes == (2,)
    with pytest.raises(SupervisionError, match="was lost"):
        placed.slice(hosts=1, gpu=0).where.call_one().get(timeout=60)


@pytest.mark.parametrize("what", ["worker", "host"])
def test_an_actor_that_waits_for_one_on_another_host_hears_of_its_end(
    what: str, attach: Attach, start_host: Start, faults: list[MeshFailure]
) -> None:
    programs = [start_host() for _ in range(2)]
    placed = attach([program.address for program in programs]).spawn_procs(name="workers").spawn("placed", Placed)
    asked = placed.slice(hosts=1)
    pid = asked.where.call_one().get(timeout=60)[0]
    waiting = placed.slice(hosts=0).ask_to_sleep.call_one(asked)
    # The question is there when it runs, which shows in the state of its thread: it serves nobody else.
    eventually(lambda: not _serves(asked), "the question arrives")
    if what == "worker":
        os.kill(pid, signal.SIGKILL)
    else:
        programs[1].kill()
    with pytest.raises(ActorError, match=r"workers\[hosts=1\]") as caught:
        waiting.get(timeout=60)
    assert isinstance(caught.value.__cause__, SupervisionError)
    eventually(lambda: faults, "the owner is told")


def _serves(actor: Placed) -> bool:
    try:
        actor.where.call_one().get(timeout=0.2)
    except TimeoutError:
        return False
    except SupervisionError:
        return True
    return True


def test_a_dead_worker_on_a_host_is_made_again_in_place(attach: Attach, faults: list[MeshFailure]) -> None:
    procs = attach(2).spawn_procs(name="workers")
    placed = procs.spawn("placed", Placed)
    before = [pid for _, (pid, _) in placed.where.call().get(timeout=60).items()]
    os.kill(before[1], signal.SIGKILL)
    with pytest.raises(SupervisionError):
        placed.slice(hosts=1).sleep.call_one().get(timeout=60)
    procs.respawn().get(timeout=60)
    placed.respawn().get(timeout=60)
    after = [pid for _, (pid, _) in placed.where.call().get(timeout=60).items()]
    assert after[0] == before[0] and after[1] != before[1]
    # Also for those who knew its predecessor.
    assert placed.slice(hosts=0).ask.call_one(placed.slice(hosts=1)).get(timeout=60) == after[1]
    eventually(lambda: faults, "the owner was told")


def test_what_a_dead_actor_owned_on_other_hosts_ends(attach: Attach, faults: list[MeshFailure]) -> None:
    hosts = attach(3)
    placed = hosts.spawn_procs(name="owners").spawn("placed", Placed)
    owner = placed.slice(hosts=0)
    owned = owner.spawn_on.call_one(hosts, "owned").get(timeout=60)
    os.kill(owner.where.call_one().get(timeout=60)[0], signal.SIGKILL)
    assert_gone(lambda: [pid for pid in owned if is_alive(pid)], "after their owner died on another host")
    eventually(lambda: faults, "the owner of the owner is told")


def test_a_host_where_nobody_listens_fails_with_its_name_and_the_others_serve(
    attach: Attach, start_host: Start, faults: list[MeshFailure]
) -> None:
    program = start_host()
    gone = start_host()
    gone.kill()
    hosts = attach([program.address, gone.address], patience_s=0)
    with pytest.raises(RuntimeError) as caught:
        hosts.initialized.get(timeout=60)
    assert str(caught.value).startswith(f"attach failed on 1 of 2 host(s): {gone.address}: nobody listens there")
    placed = hosts.spawn_procs(name="workers").spawn("placed", Placed)
    with pytest.raises(SupervisionError, match=r"could not be started: .*nobody listens there"):
        placed.slice(hosts=1).where.call_one().get(timeout=60)
    assert placed.slice(hosts=0).host_program.call_one().get(timeout=60) == program.process.pid
    eventually(lambda: faults, "the owner is told")


def test_a_host_serves_one_client_at_a_time(attach: Attach, start_host: Start) -> None:
    program = start_host()
    attach([program.address]).initialized.get(timeout=60)
    with pytest.raises(RuntimeError, match=f"it serves another client, pid {os.getpid()} on"):
        attach_to_workers(ca="trust_all_connections", workers=[program.address]).initialized.get(timeout=60)


CLIENT = """
import sys, time
from monarch.actor import attach_to_workers
from host_actors import Placed
from host_programs import HostProgram

hosts = attach_to_workers(ca="trust_all_connections", workers=sys.argv[1:])
placed = hosts.spawn_procs({"gpu": 2}).spawn("placed", Placed)
print(*[pid for _, (pid, _) in placed.where.call().get().items()], flush=True)
placed.sleep.call().get()
"""


@pytest.fixture
def client() -> Iterator[Callable[[list[str]], subprocess.Popen[str]]]:
    """A client that keeps the workers of hosts busy for as long as it lives."""
    started: list[subprocess.Popen[str]] = []
    marks: list[str] = []

    def start(addresses: list[str]) -> subprocess.Popen[str]:
        environment, mark = marked_environment()
        environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
        marks.append(mark)
        command = [sys.executable, "-c", CLIENT, *addresses]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for program in started:
        program.kill()
        program.wait()
        assert program.stdout is not None
        program.stdout.close()
    for mark in marks:
        assert_gone(lambda mark=mark: marked_processes(mark), "after the client's end")


def _pids(program: subprocess.Popen[str]) -> list[int]:
    assert program.stdout is not None
    return [int(pid) for pid in program.stdout.readline().split()]


def test_workers_of_a_client_that_is_killed_end_on_every_host_which_serve_the_next(
    start_host: Start, client: Callable[[list[str]], subprocess.Popen[str]], attach: Attach
) -> None:
    programs = [start_host() for _ in range(4)]
    addresses = [program.address for program in programs]
    first = client(addresses)
    pids = _pids(first)
    assert len(pids) == 8 and all(map(is_alive, pids))
    first.kill()
    # The next one may come at once; it waits for what the first has left.
    placed = attach(addresses).spawn_procs().spawn("placed", Placed)
    assert [pid for _, pid in placed.host_program.call().get(timeout=60).items()] == [p.process.pid for p in programs]
    assert not any(map(is_alive, pids))


def test_a_host_that_is_told_to_end_takes_its_workers_along(
    start_host: Start, client: Callable[[list[str]], subprocess.Popen[str]]
) -> None:
    program = start_host()
    pids = _pids(client([program.address]))
    program.process.send_signal(signal.SIGTERM)
    assert program.status() == 128 + signal.SIGTERM
    assert not any(map(is_alive, pids))
