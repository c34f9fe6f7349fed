"""`ProcessJob`: several hosts on this machine, each a worker program."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from monarch._actor.hosts.attaching import attach_hosts
from monarch._actor.local.launch import environment
from monarch._cli.worker import KEEP
from monarch.job._state import JobState
from monarch.job._trait import JobTrait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# How long all worker programs may take to listen: interpreters start slowly where many do.
START_S = 120.0

# How long a worker program may take to end what runs on it, before it is killed.
END_S = 15.0

_POLL_S = 0.01


class ProcessJob(JobTrait):
    """One worker program on this machine for each host: `ProcessJob({"trainers": 2, "readers": 4})`.

    They end with the program that made them, also when that is killed. They outlive it when the job is `detached`, is
    written by `dump`, or when `state` is given a path; then each ends when no client has come for `idle_timeout`
    seconds. `env` is added to their environment.
    """

    def __init__(
        self,
        meshes: Mapping[str, int],
        env: Mapping[str, str] | None = None,
        *,
        detached: bool = False,
        idle_timeout: float = 600.0,
    ) -> None:
        super().__init__()
        for name, count in meshes.items():
            if not name.isidentifier():
                raise ValueError(f"the mesh name {name!r} has to be an identifier: it becomes an attribute")
            if count < 1:
                raise ValueError(f"the mesh {name!r} has {count} hosts: it needs at least one")
        self._meshes = dict(meshes)
        self._env = dict(env or {})
        self._detached = detached
        self._idle_timeout = idle_timeout
        self._directory: str | None = None
        self._pids: dict[str, int] = {}  # by address
        self._programs: list[subprocess.Popen[bytes]] = []  # those that this process has started

    def can_run(self, spec: JobTrait) -> bool:
        if not isinstance(spec, ProcessJob) or (self._meshes, self._env) != (spec._meshes, spec._env):
            return False
        return self.active and all(_listens(pid, address) for address, pid in self._pids.items())

    def _addresses(self, mesh: str) -> list[str]:
        return [f"ipc://{self._directory}/{mesh}_{index}" for index in range(self._meshes[mesh])]

    def _create(self, client_script: str | None) -> None:
        if client_script is not None:
            raise RuntimeError("a ProcessJob runs no client script: start the script, which makes the job itself")
        self._directory = tempfile.mkdtemp(prefix="monarch_process_job_")
        if self._detached:
            self._keep()
        try:
            for address in [address for mesh in self._meshes for address in self._addresses(mesh)]:
                program = self._start(address)
                self._programs.append(program)
                self._pids[address] = program.pid
            self._wait_until_they_listen()
        except BaseException:
            self._kill()
            raise

    def _start(self, address: str) -> subprocess.Popen[bytes]:
        # A program that outlives this one must not hold its terminal or pipes.
        output = subprocess.DEVNULL if self._detached else None
        assert self._directory is not None, "the directory is made first"
        command = [sys.executable, "-m", "monarch", "worker", "--listen", address, "--quiet"]
        command += ["--with-process", str(os.getpid()), "--job-directory", self._directory]
        command += ["--idle-timeout", str(self._idle_timeout)]
        return subprocess.Popen(
            command,
            env={**dict(environment()), **self._env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def _wait_until_they_listen(self) -> None:
        deadline = time.monotonic() + START_S
        for address, program in zip(self._pids, self._programs):
            while not _listens(program.pid, address):
                if program.poll() is not None:
                    raise RuntimeError(f"the worker program of {address} ended with status {program.returncode}")
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the worker program of {address} does not listen after {START_S:g} s")
                time.sleep(_POLL_S)

    def _state(self) -> JobState:
        return JobState({name: attach_hosts(self._addresses(name), name) for name in self._meshes})

    def _kill(self) -> None:
        living = [pid for address, pid in self._pids.items() if _is_worker(pid, address)]
        for pid in living:
            _signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + END_S
        for address, pid in self._pids.items():
            while self._is_running(pid, address) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            if self._is_running(pid, address):
                _signal(pid, signal.SIGKILL)
        for program in self._programs:
            program.wait()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory, self._pids, self._programs = None, {}, []

    def _is_running(self, pid: int, address: str) -> bool:
        mine = next((program for program in self._programs if program.pid == pid), None)
        return mine.poll() is None if mine is not None else _is_worker(pid, address)

    def _keep(self) -> None:
        if self._directory is not None:
            with open(os.path.join(self._directory, KEEP), "w"):
                pass

    def _outlives_program(self) -> bool:
        return self._detached

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_programs": []}


def _listens(pid: int, address: str) -> bool:
    return os.path.exists(address.removeprefix("ipc://")) and _is_worker(pid, address)


def _is_worker(pid: int, address: str) -> bool:
    """Whether this process is the worker program at that address, rather than one that got its number later."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            return address.encode() in command.read().split(b"\0")
    except FileNotFoundError:
        if os.path.exists("/proc/self/cmdline"):
            return False
    found = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return address in found.stdout.split()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
