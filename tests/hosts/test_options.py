"""How the processes of a host are started, and the choice of a transport."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import eventually, marked_environment
from host_actors import Placed
from monarch.actor import (
    BootstrapCommand,
    ChannelTransport,
    HostMesh,
    SupervisionError,
    default_bootstrap_cmd,
    enable_transport,
    this_host,
)

Attach = Callable[..., HostMesh]


@pytest.fixture(params=["here", "attached"])
def hosts(request: pytest.FixtureRequest, attach: Attach) -> HostMesh:
    """One host: this one, or one that was attached."""
    return this_host() if request.param == "here" else attach(1).slice(hosts=0)


def test_a_command_for_each_point(hosts: HostMesh) -> None:
    procs = hosts.spawn_procs(
        {"gpu": 2},
        bootstrap_command=lambda point: default_bootstrap_cmd().with_env({"MONARCH_TEST_GPU": str(point["gpu"])}),
    )
    placed = procs.spawn("placed", Placed)
    values = placed.variable.call("MONARCH_TEST_GPU").get(timeout=60)
    assert [value for _, value in values.items()] == ["0", "1"]
    procs.stop().get(timeout=60)


def test_a_command_removes_variables(hosts: HostMesh) -> None:
    command = default_bootstrap_cmd().with_env({"XDG_CONFIG_HOME": None})
    procs = hosts.spawn_procs(bootstrap_command=command)
    assert procs.spawn("placed", Placed).variable.call_one("XDG_CONFIG_HOME").get(timeout=60) is None
    procs.stop().get(timeout=60)


def test_a_command_has_a_name_of_its_own(hosts: HostMesh) -> None:
    default = default_bootstrap_cmd()
    command = BootstrapCommand(default.program, "my-worker", default.args)
    procs = hosts.spawn_procs(bootstrap_command=command)
    pid = procs.spawn("placed", Placed).where.call_one().get(timeout=60)[0]
    assert Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == b"my-worker"
    procs.stop().get(timeout=60)


def test_a_command_that_cannot_be_started_is_named(hosts: HostMesh, faults: list[object]) -> None:
    procs = hosts.spawn_procs(bootstrap_command=BootstrapCommand("/no/such/python", None, []))
    with pytest.raises(SupervisionError, match="cannot start `/no/such/python`"):
        procs.spawn("placed", Placed).where.call_one().get(timeout=60)
    eventually(lambda: faults, "the owner is told")


def test_an_exception_of_the_function_is_the_caller_s(hosts: HostMesh) -> None:
    def fails(point: object) -> BootstrapCommand:
        raise LookupError("no command here")

    with pytest.raises(LookupError, match="no command here"):
        hosts.spawn_procs(bootstrap_command=fails)


def test_another_interpreter_runs_later_processes(hosts: HostMesh, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nMONARCH_TEST_PYTHON=mine exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    procs = hosts.with_python_executable(python).spawn_procs()
    assert procs.spawn("placed", Placed).variable.call_one("MONARCH_TEST_PYTHON").get(timeout=60) == "mine"
    procs.stop().get(timeout=60)


def test_processes_are_bound_to_cpus(hosts: HostMesh) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    bound = [cpus[0], cpus[-1]]
    procs = hosts.spawn_procs({"gpu": 2}, proc_bind=[{"cpus": str(cpu)} for cpu in bound])
    found = procs.spawn("placed", Placed).cpus.call().get(timeout=60)
    assert [cpus for _, cpus in found.items()] == [{cpu} for cpu in bound]
    procs.stop().get(timeout=60)


def _run(code: str) -> str:
    environment, _ = marked_environment()
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_transport_is_chosen_before_the_start_and_again() -> None:
    code = """
from monarch.actor import ChannelTransport, enable_transport, this_host
enable_transport("tcp")
this_host()
enable_transport(ChannelTransport.TcpWithHostname)
try:
    enable_transport("ipc")
except RuntimeError as error:
    print(error)
"""
    assert "TcpWithHostname is in use" in _run(code)


def test_a_transport_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="invalid bind spec 'carrier-pigeon'"):
        enable_transport("carrier-pigeon")
    with pytest.raises(ValueError, match="is not an address"):
        enable_transport("tcp://nowhere")
    with pytest.raises(NotImplementedError, match="Tls is not supported"):
        enable_transport(ChannelTransport.Tls)
