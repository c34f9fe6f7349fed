"""Fixtures with hosts whose programs are started by the tests."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import assert_gone, marked_environment, marked_processes
from host_programs import ENDS_WITHIN_S, HostProgram
from monarch.actor import HostMesh, attach_to_workers


@pytest.fixture(scope="session", autouse=True)
def own_cluster_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A key of the tests' own, made by their client."""
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    yield
    if before is None:
        del os.environ["XDG_CONFIG_HOME"]
    else:
        os.environ["XDG_CONFIG_HOME"] = before


@pytest.fixture
def start_host(tmp_path: Path) -> Iterator[Callable[..., HostProgram]]:
    """Start a host's program; ended after the test, with a look at what is left."""
    started: list[HostProgram] = []
    environment, mark = marked_environment()

    def start(address: str = "tcp://127.0.0.1:0", *arguments: str, **variables: str) -> HostProgram:
        started.append(HostProgram({**environment, **variables}, tmp_path, "--listen", address, *arguments))
        return started[-1]

    yield start
    for host in started:
        host.process.send_signal(signal.SIGTERM)
    for host in started:
        host.status()
        host.lines.close()
    assert_gone(lambda: marked_processes(mark), "after the hosts' programs ended")


@pytest.fixture
def attach(start_host: Callable[..., HostProgram]) -> Iterator[Callable[..., HostMesh]]:
    """Attach hosts at addresses, or so many new ones; shut down after the test."""
    attached: list[HostMesh] = []

    def attach(hosts: int | list[str], **options: object) -> HostMesh:
        if isinstance(hosts, int):
            hosts = [host.address for host in start_together(start_host, hosts)]
        mesh = attach_to_workers(ca="trust_all_connections", workers=hosts, **options)  # type: ignore[arg-type]
        attached.append(mesh)
        return mesh

    yield attach
    for stop in [mesh.shutdown() for mesh in attached]:
        stop.get(timeout=ENDS_WITHIN_S)


def start_together(start_host: Callable[..., HostProgram], count: int) -> list[HostProgram]:
    """So many hosts, started at the same time: interpreters take a while on a loaded machine."""
    started: list[HostProgram] = []
    threads = [threading.Thread(target=lambda: started.append(start_host())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(started) == count
    return started
