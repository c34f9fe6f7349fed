"""Who may attach a host, and who may not."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import marked_environment
from host_actors import Placed
from host_programs import HostProgram
from monarch import _native
from monarch.actor import HostMesh, attach_to_workers

Start = Callable[..., HostProgram]
Attach = Callable[..., HostMesh]


def _why_not(address: str) -> str:
    """Why a host cannot be attached."""
    with pytest.raises(RuntimeError) as caught:
        attach_to_workers(ca="trust_all_connections", workers=[address]).initialized.get(timeout=60)
    return str(caught.value)


def _another_key(directory: Path) -> str:
    path = directory / "another.key"
    _native.ClusterKey.create(str(path))
    return str(path)


def test_a_host_with_another_key_is_refused_by_name(start_host: Start, tmp_path: Path) -> None:
    program = start_host("tcp://127.0.0.1:0", "--key-file", _another_key(tmp_path))
    why = _why_not(program.address)
    assert f"{program.address}: the cluster keys differ" in why and "monarch key create" in why


def test_a_key_file_is_named_by_a_variable(start_host: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _another_key(tmp_path)
    program = start_host(MONARCH_CLUSTER_KEY_FILE=path)
    monkeypatch.setenv("MONARCH_CLUSTER_KEY_FILE", path)
    hosts = attach_to_workers(ca="trust_all_connections", workers=[program.address])
    assert hosts.initialized.get(timeout=60)
    hosts.shutdown().get(timeout=60)


def test_a_key_comes_by_an_inherited_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_host: Start
) -> None:
    path = _another_key(tmp_path)
    with open(path) as key:
        environment, _ = marked_environment()
        environment["MONARCH_CLUSTER_KEY_FD"] = str(key.fileno())
        command = [sys.executable, "-m", "monarch", "worker", "--listen", "tcp://127.0.0.1:0"]
        program = subprocess.Popen(
            command, env=environment, pass_fds=[key.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    assert program.stdout is not None
    address = program.stdout.readline().split()[-1]
    monkeypatch.setenv("MONARCH_CLUSTER_KEY_FILE", path)
    hosts = attach_to_workers(ca="trust_all_connections", workers=[address])
    assert hosts.initialized.get(timeout=60)
    hosts.shutdown().get(timeout=60)
    program.communicate(timeout=60)
    assert program.returncode == 0


def test_a_client_without_a_key_is_told_what_to_do(start_host: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    program = start_host()
    attach_to_workers(ca="trust_all_connections", workers=[program.address]).stop().get(timeout=60)
    monkeypatch.setenv("MONARCH_INSECURE_NETWORK", "1")
    why = _why_not(program.address)
    assert "demands the cluster key" in why and "MONARCH_CLUSTER_KEY_FILE" in why


def test_doing_without_a_key_is_loud_and_works(start_host: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    program = start_host(MONARCH_INSECURE_NETWORK="1")
    assert "WARNING" in program.log.read_text() and program.address in program.log.read_text()
    assert "no cluster key" in _why_not(program.address), "a client that has a key trusts nobody without"
    monkeypatch.setenv("MONARCH_INSECURE_NETWORK", "1")
    hosts = attach_to_workers(ca="trust_all_connections", workers=[program.address])
    assert hosts.spawn_procs().spawn("placed", Placed).where.call().get(timeout=60).extent.sizes == (1,)
    hosts.shutdown().get(timeout=60)


def _run_worker(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment, _ = marked_environment()
    command = [sys.executable, "-m", "monarch", "worker", *arguments]
    return subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=60)


def test_listening_for_other_machines_without_a_key_is_refused(tmp_path: Path) -> None:
    for address in ("tcp://*:0", "tcp://0.0.0.0:0"):
        outcome = _run_worker("--listen", address, XDG_CONFIG_HOME=str(tmp_path))
        assert outcome.returncode == 1
        assert "without a cluster key" in outcome.stderr and "monarch key create" in outcome.stderr
        assert "Traceback" not in outcome.stderr
    assert not list(tmp_path.iterdir()), "a host makes no key"


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = _another_key(tmp_path)
    os.chmod(path, 0o644)
    outcome = _run_worker("--listen", "tcp://127.0.0.1:0", "--key-file", path)
    assert outcome.returncode == 1 and "chmod 600" in outcome.stderr


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    outcome = _run_worker("--listen", "tcp://127.0.0.1:0", "--key-file", str(tmp_path / "absent"))
    assert outcome.returncode == 1 and str(tmp_path / "absent") in outcome.stderr


def test_another_version_is_refused_and_both_are_named(start_host: Start, tmp_path: Path) -> None:
    program = start_host("tcp://127.0.0.1:0", "--key-file", _another_key(tmp_path))
    host, _, port = program.address.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as stranger:
        body = struct.pack("<HB", 1, 1) + os.urandom(32) + b"9.9.9"
        stranger.sendall(b"Mh\x01" + struct.pack("<H", len(body)) + body)
        answer = b""
        while chunk := stranger.recv(1024):
            answer += chunk
    assert answer[:3] == b"Mh\x04"
    assert b"9.9.9" in answer and _native.__version__.encode() in answer


def test_strangers_disturb_nothing(start_host: Start, attach: Attach) -> None:
    program = start_host()
    placed = attach([program.address]).spawn_procs().spawn("placed", Placed)
    placed.where.call().get(timeout=60)
    host, _, port = program.address.removeprefix("tcp://").rpartition(":")
    for garbage in [b"", b"GET / HTTP/1.1\r\n\r\n", b"Mh\x01\xff\xff", os.urandom(600)] * 5:
        with socket.create_connection((host, int(port)), timeout=60) as stranger:
            stranger.sendall(garbage)
            with contextlib.suppress(OSError):  # it may have hung up already
                stranger.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b"", "hung up on, without a word"
    assert placed.where.call().get(timeout=60).extent.sizes == (1,)


def test_tls_is_refused_rather_than_ignored() -> None:
    with pytest.raises(NotImplementedError, match="TLS is not supported"):
        attach_to_workers(ca="/etc/ca.pem", workers=["tcp://localhost:1"])


@pytest.mark.parametrize("address", ["node7", "tcp://node7", "http://node7:1", "tls://node7:1", "ipc://relative"])
def test_a_malformed_address_is_named(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address of a host"):
        attach_to_workers(ca="trust_all_connections", workers=[address])
    with pytest.raises(TypeError, match="sequence of addresses"):
        attach_to_workers(ca="trust_all_connections", workers=address)
