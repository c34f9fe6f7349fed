"""A program that can reach one host of a cluster, which passes connections on to the others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import assert_gone, marked_environment, marked_processes
from host_programs import HostProgram

Start = Callable[..., HostProgram]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

BEGIN = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from host_actors import Placed
from monarch.actor import *
gateway, *workers = sys.argv[1:]
def connections():
    "Where this process's TCP connections lead."
    inodes = set()
    for number in os.listdir("/proc/self/fd"):
        try: inodes.add(os.readlink(f"/proc/self/fd/{{number}}"))
        except OSError: pass
    rows = [line.split() for line in open("/proc/self/net/tcp").readlines()[1:]]
    return {{int(row[2].split(":")[1], 16) for row in rows if f"socket:[{{row[9]}}]" in inodes}}
def port(address): return int(address.rpartition(":")[2])
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Run a client program with the addresses of hosts, the gateway's first."""
    marks: list[str] = []

    def run(code: str, *addresses: str) -> subprocess.CompletedProcess[str]:
        environment, mark = marked_environment()
        marks.append(mark)
        command = [sys.executable, "-c", BEGIN + code, *addresses]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    yield run
    for mark in marks:
        assert_gone(lambda mark=mark: marked_processes(mark), "after the client's end")


def test_hosts_are_reached_by_way_of_another_which_may_be_one_of_them(run: Run, start_host: Start) -> None:
    programs = [start_host() for _ in range(4)]
    done = run(
        """
attach(gateway)
attach(gateway)
hosts = attach_to_workers(ca="trust_all_connections", workers=sys.argv[1:])
placed = hosts.spawn_procs({"gpu": 2}).spawn("placed", Placed)
print(*[pid for _, pid in placed.host_program.call().get().items()])
assert placed.slice(hosts=2, gpu=1).ask.call_one(placed.slice(hosts=3, gpu=0)).get() > 0
text = "x" * (5 << 20)
assert placed.variable.call(text).get().extent.sizes == (4, 2)
assert connections() == {port(gateway)}, connections()
hosts.shutdown().get()
""",
        *(program.address for program in programs),
    )
    assert done.stdout.split() == [str(program.process.pid) for program in programs for _ in range(2)]
    assert [program.status() for program in programs] == [0] * 4


def test_who_cannot_be_reached_by_way_of_the_gateway_is_named(run: Run, start_host: Start) -> None:
    gateway, gone = start_host(), start_host()
    gone.kill()
    done = run(
        """
attach(gateway)
hosts = attach_to_workers(ca="trust_all_connections", workers=workers, patience_s=0.0)
try: hosts.initialized.get()
except RuntimeError as error: print(error)
""",
        gateway.address,
        gone.address,
    )
    assert f"{gone.address}: by way of {gateway.address}: nobody listens there" in done.stdout


def test_the_end_of_the_gateway_is_the_loss_of_what_is_beyond(run: Run, start_host: Start) -> None:
    gateway, beyond = start_host(), start_host()
    done = run(
        """
import signal
attach(gateway)
near = attach_to_workers(ca="trust_all_connections", workers=[gateway], name="near")
far = attach_to_workers(ca="trust_all_connections", workers=workers, name="far")
program = near.spawn_procs().spawn("placed", Placed).slice(hosts=0).host_program.call_one().get()
import monarch.actor
monarch.actor.unhandled_fault_hook = lambda failure: None
placed = far.spawn_procs().spawn("placed", Placed)
placed.where.call().get()
call = placed.sleep.call()
os.kill(program, signal.SIGKILL)
try: call.get(timeout=60)
except SupervisionError as error: print(error)
""",
        gateway.address,
        beyond.address,
    )
    assert "the connection to it" in done.stdout
    assert beyond.process.poll() is None


def test_wrong_uses_are_refused(run: Run, start_host: Start) -> None:
    gateway, other = start_host(), start_host()
    done = run(
        """
for address in ("nowhere", "tcp://127.0.0.1:1", gateway, workers[0]):
    try: attach(address)
    except (ValueError, RuntimeError) as error: print(type(error).__name__, error)
this_host()
attach(gateway)
""",
        gateway.address,
        other.address,
    )
    wrong, unreachable, second = done.stdout.splitlines()
    assert wrong.startswith("ValueError `nowhere` is not an address")
    assert unreachable.startswith("RuntimeError nobody listens there")
    assert second.startswith(f"RuntimeError cannot attach to {other.address}: ")
    assert gateway.address in second
    late = run(
        """
this_host()
try: attach(gateway)
except RuntimeError as error: print(error)
""",
        gateway.address,
    )
    assert "before anything that starts the client" in late.stdout
