"""However a client ends, at whatever moment, nothing of it is left: no process, socket, file or shared memory."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("program.py")

# Everything has to be gone within 2 s of the client's end; a busy machine may be slow to look.
GONE_WITHIN_S = 15.0

# A whole start takes about a second on two idle cores, so these moments lie before, in and after it.
LATEST_MOMENT_S = 2.0


class Client:
    """A running client, with its own directory for whatever it may leave behind."""

    def __init__(self, directory: Path, workers: int, program: Path = PROGRAM) -> None:
        self.directory = directory
        self.mark = f"TEST_CLIENT={uuid.uuid4().hex}"
        name, value = self.mark.split("=")
        environment = {**os.environ, name: value, "TMPDIR": str(directory), "TEST_PARENT": str(os.getpid())}
        environment.pop("COV_CORE_SOURCE", None)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.shared_memory = shared_memory()
        self.process = subprocess.Popen(
            [sys.executable, str(program), str(workers)],
            env=environment,
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line != "ready\n":
            assert self.process.stderr is not None
            pytest.fail(f"the client said {line!r}: {self.process.stderr.read()}")

    def running_until(self, moment_s: float) -> bool:
        try:
            self.process.wait(moment_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self, number: int) -> int:
        """Send a signal, see the client end; its status."""
        os.kill(self.process.pid, number)
        self.process.communicate(timeout=60)
        return self.process.returncode

    def assert_nothing_is_left(self) -> None:
        until = time.monotonic() + GONE_WITHIN_S
        while left := self.processes():
            if not wait_for_end(left[0][0], until):
                for pid, _ in left:
                    os.kill(pid, signal.SIGKILL)
                pytest.fail(f"left behind: {left}")
        assert list(self.directory.iterdir()) == []
        assert shared_memory() <= self.shared_memory

    def processes(self) -> list[tuple[int, str]]:
        return [(pid, command_of(pid)) for pid in all_pids() if is_marked(pid, self.mark)]


def wait_for_end(pid: int, until: float) -> bool:
    """Wait for the end of a process that is no child of this one; false when it did not come."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ended, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
        return bool(ended)
    finally:
        os.close(descriptor)


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def is_marked(pid: int, mark: str) -> bool:
    """Whether a living process has `mark` in its environment; one that has ended and waits for its parent has none."""
    try:
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))


pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="looks for processes in Linux's /proc")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    started = Client(tmp_path, workers=2)
    yield started
    if started.process.poll() is None:
        started.end(signal.SIGKILL)


@pytest.mark.parametrize(
    ("number", "statuses"),
    [
        (signal.SIGINT, {-signal.SIGINT, 130}),
        (signal.SIGTERM, {-signal.SIGTERM, 143}),
        (signal.SIGKILL, {-signal.SIGKILL}),
    ],
    ids=["SIGINT", "SIGTERM", "SIGKILL"],
)
def test_a_signal_in_the_middle_of_work_ends_all_with_the_signals_status(
    client: Client, number: signal.Signals, statuses: set[int]
) -> None:
    client.wait_until_ready()
    assert client.end(number) in statuses
    client.assert_nothing_is_left()


def _schedules(count: int) -> list[int]:
    """Seeds, new ones every time; a failure's name tells its own, which `MONARCH_TEST_SEED` repeats."""
    if seed := os.environ.get("MONARCH_TEST_SEED"):
        return [int(seed)]
    return [random.SystemRandom().randrange(1 << 31) for _ in range(count)]


def _end_at_a_random_moment(seed: int, directory: Path) -> None:
    chance = random.Random(seed)
    number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    client = Client(directory, workers=chance.randint(1, 4))
    moment = chance.uniform(0, LATEST_MOMENT_S)
    print(f"seed {seed}: {number.name} after {moment:.3f} s")
    assert client.running_until(moment), client.process.communicate()
    client.end(number)
    client.assert_nothing_is_left()


def test_a_signal_at_a_random_moment_leaves_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    for seed in _schedules(8):
        _end_at_a_random_moment(seed, tmp_path_factory.mktemp("client"))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_fifty_signals_at_random_moments_leave_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    for seed in _schedules(50):
        _end_at_a_random_moment(seed, tmp_path_factory.mktemp("client"))
