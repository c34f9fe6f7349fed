"""The checklist's lines about hosts, the end of programs, and configuration, with worker loops as separate programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import assert_gone, is_alive, marked_environment, marked_processes
from host_actors import Placed
from host_programs import HostProgram
from monarch.actor import ChannelTransport, attach_to_workers, enable_transport, this_host
from monarch.config import configure, configured, get_global_config

RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., HostProgram]

LOOP = """
import sys
from monarch.actor import run_worker_loop_forever

run_worker_loop_forever(ca="trust_all_connections", address=sys.argv[1])
"""

# What the client programs of these tests begin with.
BEGIN = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "hosts")!r})
from host_actors import Placed
from monarch.actor import *
hosts = attach_to_workers(ca="trust_all_connections", workers=sys.argv[1:])
"""


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[list[tuple[subprocess.Popen[bytes], str]]]:
    """Four programs that each run a worker loop, and their addresses; whoever lives after the test is killed."""
    environment, mark = marked_environment()
    addresses = [f"ipc://{tmp_path}/{number}" for number in range(4)]
    started = [subprocess.Popen([sys.executable, "-c", LOOP, address], env=environment) for address in addresses]
    yield list(zip(started, addresses, strict=True))
    for program in started:
        program.kill()
        program.wait()
    assert_gone(lambda: marked_processes(mark), "after the worker loops ended")


def test_a24_workers_are_attached_stopped_attached_again_and_shut_down(
    loops: list[tuple[subprocess.Popen[bytes], str]],
) -> None:
    addresses = [address for _, address in loops]
    for _ in range(2):
        hosts = attach_to_workers(ca="trust_all_connections", workers=addresses)
        assert hosts.initialized.get(timeout=60) is True
        assert dict(hosts.extent) == {"hosts": 4}
        placed = hosts.spawn_procs({"gpu": 2}).spawn("placed", Placed)
        on = [pid for _, pid in placed.host_program.call().get(timeout=60).items()]
        assert on == [program.pid for program, _ in loops for _ in range(2)]
        hosts.stop().get(timeout=60)
        assert [program.poll() for program, _ in loops] == [None] * 4
    hosts = attach_to_workers(ca="trust_all_connections", workers=addresses)
    hosts.shutdown().get(timeout=60)
    assert [program.wait(30) for program, _ in loops] == [0] * 4


def test_a25_a_second_shutdown_of_the_context_is_harmless_and_the_exit_status_is_the_program_s(
    run_program: RunProgram, start_host: Start
) -> None:
    programs = [start_host() for _ in range(4)]
    code = f"""{BEGIN}
placed = hosts.spawn_procs().spawn("placed", Placed)
print(len(placed.where.call().get()))
first = shutdown_context()
print(first.get(), shutdown_context() is first, shutdown_context().get())
sys.exit(7)
"""
    done = run_program("-c", code, *(program.address for program in programs))
    assert (done.returncode, done.stdout, done.stderr) == (7, "4\nNone True None\n", "")
    # Hosts were not shut down with it: they serve the next.
    assert [program.process.poll() for program in programs] == [None] * 4
    hosts = attach_to_workers(ca="trust_all_connections", workers=[program.address for program in programs])
    assert hosts.initialized.get(timeout=60)
    hosts.shutdown().get(timeout=60)


def test_a26_workers_of_a_killed_client_are_gone_here_and_on_hosts(start_host: Start) -> None:
    programs = [start_host() for _ in range(4)]
    code = f"""{BEGIN}
near = this_host().spawn_procs({{"gpu": 2}}).spawn("near", Placed)
placed = hosts.spawn_procs().spawn("placed", Placed)
pids = [pid for mesh in (near, placed) for _, (pid, _) in mesh.where.call().get().items()]
print(*pids, flush=True)
near.sleep.call().get()
"""
    environment, mark = marked_environment()
    command = [sys.executable, "-c", code, *(program.address for program in programs)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        pids = [int(pid) for pid in client.stdout.readline().split()]
        assert len(pids) == 6 and all(map(is_alive, pids))
        client.kill()
    assert_gone(lambda: [pid for pid in pids if is_alive(pid)], "after the client was killed")
    assert_gone(lambda: marked_processes(mark), "after the client was killed")
    assert [program.process.poll() for program in programs] == [None] * 4


def test_a27_another_transport_after_the_start_is_refused(run_program: RunProgram) -> None:
    this_host()
    with pytest.raises(RuntimeError, match="before anything else"):
        enable_transport("tcp")
    enable_transport(ChannelTransport.Unix)
    code = """
from monarch.actor import *
enable_transport("tcp")
this_host()
enable_transport(ChannelTransport.TcpWithHostname)
try: enable_transport("ipc")
except RuntimeError: print("refused")
"""
    assert run_program("-c", code).stdout == "refused\n"


def test_a28_wrong_keys_and_values_are_refused_and_configured_restores() -> None:
    before = get_global_config()
    with pytest.raises(ValueError, match="unknown"):
        configure(unknown=1)
    with pytest.raises(TypeError, match="cleanup_timeout"):
        configure(cleanup_timeout=3)
    assert get_global_config() == before
    with configured(cleanup_timeout="90s") as inside:
        assert inside["cleanup_timeout"] == get_global_config()["cleanup_timeout"] == "1m 30s"
    assert get_global_config() == before
