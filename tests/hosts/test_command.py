"""The `monarch` command."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import assert_gone, marked_environment, marked_processes
from host_actors import Placed
from host_programs import HostProgram
from monarch import _native
from monarch._cli import main
from monarch.actor import HostMesh


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"monarch {_native.__version__}\n"
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    help = capsys.readouterr().out
    assert end.value.code == 0 and "worker" in help and "key" in help
    assert main([]) == 1
    assert capsys.readouterr().out == help


def test_a_key_is_made_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["key", "create"]) == 0
    path = tmp_path / "monarch" / "cluster.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert str(path) in capsys.readouterr().out
    before = path.read_text()
    assert before not in capsys.readouterr().out
    assert main(["key", "create"]) == 1, "a key in use is not overwritten"
    assert "File exists" in capsys.readouterr().err and path.read_text() == before
    assert main(["key", "create", str(tmp_path / "mine")]) == 0
    assert (tmp_path / "mine").read_text() != before


def test_a_wrong_address_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "--listen", "node7"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("monarch: error: `node7` is not an address") and error.count("\n") == 1


def test_an_address_in_use_is_named(start_host: Callable[..., HostProgram]) -> None:
    address = start_host().address
    outcome = subprocess.run(
        [sys.executable, "-m", "monarch", "worker", "--listen", address], capture_output=True, text=True, timeout=60
    )
    assert outcome.returncode == 1
    assert address in outcome.stderr and "in use" in outcome.stderr and "Traceback" not in outcome.stderr


def test_a_descriptor_that_listens_already_is_taken_over(attach: Callable[..., HostMesh]) -> None:
    environment, mark = marked_environment()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number, port = listening.fileno(), listening.getsockname()[1]
        command = [sys.executable, "-m", "monarch", "worker", "--listen", f"tcp://127.0.0.1:fd{number}"]
        program = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[number]
        )
    with program:
        assert program.stdout is not None and program.stderr is not None
        line = program.stdout.readline()
        if not line:
            pytest.fail(program.stderr.read())
        assert line == f"listening at tcp://127.0.0.1:{port}\n"
        hosts = attach([f"tcp://127.0.0.1:{port}"])
        placed = hosts.spawn_procs().spawn("placed", Placed)
        assert placed.where.call().get(timeout=60).extent.sizes == (1,)
        hosts.shutdown().get(timeout=60)
        assert program.wait(60) == 0
    assert_gone(lambda: marked_processes(mark), "after the host was shut down")


def test_a_descriptor_that_cannot_listen_is_named(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w") as file:
        listen = ["worker", "--listen", f"tcp://127.0.0.1:fd{file.fileno()}"]
        outcome = subprocess.run(
            [sys.executable, "-m", "monarch", *listen],
            capture_output=True,
            text=True,
            timeout=60,
            pass_fds=[file.fileno()],
        )
        assert outcome.returncode == 1 and "Traceback" not in outcome.stderr
        assert f"cannot listen at `tcp://127.0.0.1:fd{file.fileno()}`" in outcome.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_worker_without_a_word(
    number: int,
    status: int,
    start_host: Callable[..., HostProgram],
) -> None:
    program = start_host()
    program.process.send_signal(number)
    assert program.status() == status
    assert "Traceback" not in program.log.read_text()


def test_an_idle_worker_ends_by_itself_and_leaves_no_socket(
    start_host: Callable[..., HostProgram],
    tmp_path: Path,
) -> None:
    program = start_host(f"ipc://{tmp_path}/host", "--idle-timeout", "0.01")
    assert program.status() == 0
    assert not os.path.exists(tmp_path / "host")
