"""The environment of torchrun, without torch."""

from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from monarch.actor import ProcMesh, this_host, this_proc
from monarch.spmd import SPMDActor, setup_torch_elastic_env, setup_torch_elastic_env_async
from monarch.tools.network import AddrType, get_ipaddr
from spmd_actors import AsyncSetter, Environment, Setter

EXPECTED = {
    "RANK": ["0", "1", "2", "3"],
    "WORLD_SIZE": ["4"] * 4,
    "LOCAL_RANK": ["0", "1", "0", "1"],
    "LOCAL_WORLD_SIZE": ["2"] * 4,
    "GROUP_RANK": ["0", "0", "1", "1"],
    "GROUP_WORLD_SIZE": ["2"] * 4,
    "ROLE_RANK": ["0", "1", "2", "3"],
    "ROLE_WORLD_SIZE": ["4"] * 4,
    "ROLE_NAME": ["rank"] * 4,
    "TORCHELASTIC_RESTART_COUNT": ["0"] * 4,
    "TORCHELASTIC_MAX_RESTARTS": ["0"] * 4,
    "TORCHELASTIC_USE_AGENT_STORE": ["False"] * 4,
}


def environments(procs: ProcMesh) -> list[dict[str, str]]:
    return list(procs.spawn("environment", Environment).read.call().get(timeout=30).values())


def read(procs: ProcMesh, name: str) -> list[str]:
    return [environment[name] for environment in environments(procs)]


@pytest.fixture(scope="module")
def made_up(grid: ProcMesh) -> list[dict[str, str]]:
    setup_torch_elastic_env(grid)
    return environments(grid)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_last_dimension_counts_the_processes_of_a_node(made_up: list[dict[str, str]], name: str) -> None:
    assert [environment[name] for environment in made_up] == EXPECTED[name]


@pytest.mark.parametrize("name", ["MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"])
def test_all_ranks_have_the_same(made_up: list[dict[str, str]], name: str) -> None:
    assert len({environment[name] for environment in made_up}) == 1


def test_rank_0_says_where_the_ranks_meet(made_up: list[dict[str, str]]) -> None:
    assert made_up[0]["MASTER_ADDR"] == socket.gethostname()
    assert 0 < int(made_up[0]["MASTER_PORT"]) < 65536


def test_the_ranks_of_a_view_are_its_own(grid: ProcMesh) -> None:
    setup_torch_elastic_env(grid.slice(row=1))
    assert read(grid.slice(row=1), "RANK") == ["0", "1"]
    assert read(grid.slice(row=1), "GROUP_WORLD_SIZE") == ["1", "1"]


def test_a_single_process_is_a_world(grid: ProcMesh) -> None:
    setup_torch_elastic_env(grid.slice(row=1, col=1))
    (environment,) = environments(grid.slice(row=1, col=1))
    assert [environment[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")] == ["0", "1", "1"]


def test_what_is_given_is_not_asked_for(grid: ProcMesh) -> None:
    setup_torch_elastic_env(grid, master_addr="10.1.2.3", master_port=_free_port())
    assert set(read(grid, "MASTER_ADDR")) == {"10.1.2.3"}
    setup_torch_elastic_env(grid, master_addr="10.1.2.4")
    assert set(read(grid, "MASTER_ADDR")) == {"10.1.2.4"}


def test_an_address_of_a_family_can_be_asked_for(grid: ProcMesh) -> None:
    setup_torch_elastic_env(grid, use_ipaddr=AddrType.IPv4)
    assert set(read(grid, "MASTER_ADDR")) == {get_ipaddr(socket.gethostname(), 0, AddrType.IPv4)}


def test_the_coroutine_does_the_same(grid: ProcMesh) -> None:
    asyncio.run(setup_torch_elastic_env_async(grid, master_addr="10.1.2.5"))
    assert set(read(grid, "MASTER_ADDR")) == {"10.1.2.5"}
    assert read(grid, "RANK") == EXPECTED["RANK"]


@pytest.mark.parametrize("setter", [Setter, AsyncSetter])
def test_an_actor_can_set_up_processes(grid: ProcMesh, setter: type[Any]) -> None:
    setup_torch_elastic_env(grid, master_addr="10.1.2.6")
    this_proc().spawn("setter", setter).set_up.call_one(grid).get(timeout=30)
    assert "10.1.2.6" not in read(grid, "MASTER_ADDR")


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_an_error_at_once(grid: ProcMesh, taken_port: int) -> None:
    with pytest.raises(OSError, match=f"master_port {taken_port} is taken on") as caught:
        setup_torch_elastic_env(grid, master_port=taken_port)
    assert caught.value.exception.errno == errno.EADDRINUSE  # type: ignore[attr-defined]


def test_a_port_that_is_taken_is_an_error_of_the_coroutine(grid: ProcMesh, taken_port: int) -> None:
    with pytest.raises(OSError, match=f"master_port {taken_port} is taken on"):
        asyncio.run(setup_torch_elastic_env_async(grid, master_port=taken_port))


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_refused(grid: ProcMesh, port: int) -> None:
    with pytest.raises(ValueError, match=f"master_port is {port}: a port is a number from 1 to 65535"):
        setup_torch_elastic_env(grid, master_port=port)


def test_what_is_no_process_mesh_is_refused(grid: ProcMesh) -> None:
    for wrong in (this_host(), grid.spawn("actors", Environment), None):
        with pytest.raises(TypeError, match=r"is no ProcMesh: pass the processes that spawn_procs returned"):
            setup_torch_elastic_env(wrong)  # type: ignore[arg-type]


def test_processes_that_were_stopped_are_refused(spawn_procs: Callable[..., ProcMesh]) -> None:
    procs = spawn_procs()
    procs.stop("no longer needed").get(timeout=30)
    with pytest.raises(RuntimeError, match="no longer needed"):
        setup_torch_elastic_env(procs)


def test_a_host_without_such_an_address_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"host '127\.0\.0\.1' has no IPv6 address"):
        get_ipaddr("127.0.0.1", 80, AddrType.IPv6)


@pytest.mark.parametrize(("args", "error"), [([], ValueError), (["-m"], ValueError), ("train.py", TypeError)])
def test_a_command_line_without_a_script_is_refused(grid: ProcMesh, args: Any, error: type[Exception]) -> None:
    ranks: Any = grid.slice(row=0, col=0).spawn("ranks", SPMDActor)
    with pytest.raises(error, match="script_args is"):
        ranks.main.call_one("localhost", _free_port(), args).get(timeout=30)


def test_importing_is_light() -> None:
    heavy = ["torch", "numpy", "asyncio", "cloudpickle"]
    code = f"import monarch.spmd, sys; print([module for module in {heavy} if module in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
