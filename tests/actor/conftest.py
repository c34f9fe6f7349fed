"""Real processes for tests of the actor API, and the check that none of them is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import monarch.actor
import pytest
from monarch._actor import context
from monarch.actor import ActorError, MeshFailure, ProcMesh, this_host

# Workers import the sample actors by name.
sys.path.insert(0, str(Path(__file__).parent))

GONE_WITHIN_S = 10.0


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """Where a shell has started the tests in the background, they and the programs that they start would ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_process_outlives_the_session() -> Iterator[None]:
    """Whatever this client started has to be gone once it is shut down."""
    mark = f"MONARCH_TEST_SESSION={uuid.uuid4().hex}"
    name, value = mark.split("=")
    os.environ[name] = value
    # A failure that comes late, between two tests, must not end the test run.
    monarch.actor.unhandled_fault_hook = lambda failure: print(failure.report(), file=sys.stderr)
    yield
    from monarch._actor import client, context

    if context._process is not None:
        client._shut_down(context._process)
    assert_gone(lambda: marked_processes(mark), "after the shutdown of the tests' client")


class Faults(list[MeshFailure]):
    """Failures that reach the program, in place of its end; those of meshes from before are another test's."""

    def __init__(self) -> None:
        super().__init__()
        self._came = threading.Event()
        process = context._process
        root = process.root if process is not None else None
        self._from_before = {mesh.unique_name for mesh in root.actor_meshes.values()} if root is not None else set()

    def note(self, failure: MeshFailure) -> None:
        if failure.mesh_name not in self._from_before:
            self.append(failure)
            self._came.set()

    def wait_for_more(self, timeout: float) -> None:
        """Until one has come since the last such wait, or for `timeout` seconds."""
        self._came.wait(timeout)
        self._came.clear()


@pytest.fixture
def faults() -> Iterator[Faults]:
    """Failures that reach the program, in place of its end."""
    seen = Faults()
    before = monarch.actor.unhandled_fault_hook
    monarch.actor.unhandled_fault_hook = seen.note
    yield seen
    monarch.actor.unhandled_fault_hook = before


@pytest.fixture(autouse=True)
def no_unexpected_fault(request: pytest.FixtureRequest) -> Iterator[None]:
    """A failure that no test asked for fails the test instead of ending the test run."""
    if "faults" in request.fixturenames:
        yield
        return
    seen = Faults()
    before = monarch.actor.unhandled_fault_hook
    monarch.actor.unhandled_fault_hook = seen.note
    yield
    monarch.actor.unhandled_fault_hook = before
    assert not seen, seen[0].report()


@pytest.fixture
def spawn_procs() -> Iterator[Callable[..., ProcMesh]]:
    """`this_host().spawn_procs`, with an end of the processes and a look at what is left."""
    yield from _spawner()


@pytest.fixture(scope="module")
def grid() -> Iterator[ProcMesh]:
    """Four processes `{row: 2, col: 2}` for a whole module."""
    for spawn in _spawner():
        yield spawn(per_host={"row": 2, "col": 2}, name="grid")


@pytest.fixture(scope="module")
def one() -> Iterator[ProcMesh]:
    """One process without dimensions for a whole module."""
    for spawn in _spawner():
        yield spawn(name="one")


def _spawner() -> Iterator[Callable[..., ProcMesh]]:
    made: list[ProcMesh] = []

    def spawn(*args: object, **kwargs: object) -> ProcMesh:
        made.append(this_host().spawn_procs(*args, **kwargs))  # type: ignore[arg-type]
        return made[-1]

    yield spawn
    from monarch._actor.context import process

    pids = [pid for procs in made for pid in process().runtime.pids(procs._root.mesh) if pid]
    for stop in [procs.stop("the test is over") for procs in made]:
        with contextlib.suppress(ActorError):  # of a `__cleanup__` that is meant to fail
            stop.get(timeout=30)
    assert_gone(lambda: [pid for pid in pids if is_alive(pid)], "after ProcMesh.stop")


@pytest.fixture
def run_program(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run a client program of its own, and check that all of its processes are gone when it is."""
    marks: list[str] = []

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        environment, mark = marked_environment()
        marks.append(mark)
        defaults = {"cwd": tmp_path, "timeout": 90, "capture_output": True, "text": True, "env": environment}
        return subprocess.run([sys.executable, *arguments], **{**defaults, **options})  # type: ignore[call-overload, no-any-return]

    yield run
    for mark in marks:
        assert_gone(lambda mark=mark: marked_processes(mark), "after the program's end")


def marked_environment() -> tuple[dict[str, str], str]:
    """An environment by which a client and all of its processes can be found, and the mark."""
    value = uuid.uuid4().hex
    environment = {**os.environ, "MONARCH_TEST_PROGRAM": value}
    environment["PYTHONPATH"] = os.pathsep.join([package_parent(), environment.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )
    return environment, f"MONARCH_TEST_PROGRAM={value}"


def package_parent() -> str:
    return str(Path(monarch.actor.__file__).parents[2])


def marked_processes(mark: str) -> list[int]:
    """Processes that have the mark in their environment, this one apart."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark.encode() in environment and state != "Z" and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def assert_gone(left: Callable[[], list[int]], when: str) -> None:
    """Wait until nothing is left, which is at once or soon."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while (pids := left()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not pids, f"processes {pids} are left {when}"


def eventually(condition: Callable[[], object], what: str, within_s: float = 20.0) -> None:
    """Poll for something that happens in another process, of which there is no event here."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.005)
