"""Jobs on this machine: made, found again, and gone when they should be."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import assert_gone, is_alive, marked_environment, marked_processes
from host_actors import Placed
from monarch.actor import this_host
from monarch.job import JobState, JobTrait, LocalJob, ProcessJob, job_load, job_loads

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def kill_later() -> Iterator[Callable[[JobTrait], JobTrait]]:
    """Jobs that are killed after the test."""
    jobs: list[JobTrait] = []

    def note(job: JobTrait) -> JobTrait:
        jobs.append(job)
        return job

    yield note
    for job in jobs:
        job.kill()


def _pids(job: JobTrait) -> list[int]:
    assert isinstance(job, ProcessJob)
    return list(job._pids.values())


def test_a_local_job_is_this_host_under_every_name() -> None:
    job = LocalJob(("trainers", "readers"))
    assert not job.active
    state = job.state(cached_path=None)
    assert isinstance(state, JobState)
    assert state.trainers == state.readers == this_host()
    assert job.active and job.apply_id
    with pytest.raises(AttributeError, match="no host mesh 'writers': it has trainers, readers"):
        _ = state.writers
    with pytest.raises(ValueError, match="started no program"):
        _ = job.process


def test_a_state_can_be_copied_and_pickled() -> None:
    state = LocalJob().state(cached_path=None)
    assert copy.deepcopy(state).hosts == pickle.loads(pickle.dumps(state)).hosts == this_host()
    assert state.telemetry_url is None


def test_a_client_script_runs_on_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text("import os\nprint('batch', os.environ['MONARCH_BATCH_JOB'])\n")
    job = LocalJob()
    job.apply(client_script=str(script))
    assert job.process.wait(60) == 0
    (log,) = tmp_path.glob(".monarch/logs/job_*/stdout.log")
    assert log.read_text() == "batch 1\n"
    with pytest.raises(RuntimeError, match="runs no client script"):
        ProcessJob({"hosts": 1}).apply(client_script=str(script))


def test_a_process_job_has_its_meshes_and_variables(kill_later: Callable[[JobTrait], JobTrait]) -> None:
    job = kill_later(ProcessJob({"trainers": 2, "readers": 1}, env={"MONARCH_TEST_JOB": "here"}))
    state = job.state(cached_path=None)
    assert (len(state.trainers), len(state.readers)) == (2, 1)
    placed = state.trainers.spawn_procs({"gpu": 2}).spawn("placed", Placed)
    where = placed.where.call().get(timeout=120)
    assert dict(where.extent) == {"hosts": 2, "gpu": 2}
    assert [value for _, value in placed.variable.call("MONARCH_TEST_JOB").get(timeout=60).items()] == ["here"] * 4
    pids = _pids(job)
    directory = job._directory  # type: ignore[attr-defined]
    job.kill()
    assert not job.active and not os.path.exists(directory)
    assert_gone(lambda: [pid for pid in pids if is_alive(pid)], "after kill()")


@pytest.mark.parametrize("meshes", [{"hosts": 0}, {"no name": 1}])
def test_meshes_that_cannot_be_are_refused(meshes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="mesh"):
        ProcessJob(meshes)


def test_a_job_that_was_cached_is_used_again_if_it_fits(
    tmp_path: Path, kill_later: Callable[[JobTrait], JobTrait]
) -> None:
    cache = str(tmp_path / "jobs" / "state.pkl")
    first = kill_later(ProcessJob({"hosts": 2}))
    hosts = first.state(cached_path=cache).hosts
    assert hosts.initialized.get(timeout=60)
    hosts.stop().get(timeout=60)
    assert Path(cache).stat().st_mode & 0o777 == 0o600

    again = kill_later(ProcessJob({"hosts": 2}))
    hosts = again.state(cached_path=cache).hosts
    assert hosts.initialized.get(timeout=60)
    assert (again.apply_id, _pids(again)) == (first.apply_id, _pids(first))
    hosts.stop().get(timeout=60)

    other = kill_later(ProcessJob({"hosts": 1}))
    assert other.state(cached_path=cache).hosts.initialized.get(timeout=60)
    assert other.apply_id != first.apply_id
    assert_gone(lambda: [pid for pid in _pids(first) if is_alive(pid)], "what did not fit was killed")


def test_a_dead_allocation_is_replaced(tmp_path: Path, kill_later: Callable[[JobTrait], JobTrait]) -> None:
    cache = str(tmp_path / "state.pkl")
    first = kill_later(ProcessJob({"hosts": 1}))
    first.state(cached_path=cache).hosts.shutdown().get(timeout=60)
    second = kill_later(ProcessJob({"hosts": 1}))
    assert second.state(cached_path=cache).hosts.initialized.get(timeout=60)
    assert second.apply_id != first.apply_id


def test_a_job_is_loaded_and_killed_by_another_object(
    tmp_path: Path, kill_later: Callable[[JobTrait], JobTrait]
) -> None:
    job = kill_later(ProcessJob({"hosts": 1}))
    job.apply()
    path = tmp_path / "deep" / "job.pkl"
    job.dump(str(path))
    link = tmp_path / "link"
    link.symlink_to(path)
    job.dump(str(link))
    assert link.is_symlink()
    loaded = job_load(str(link))
    assert loaded.active and loaded.can_run(ProcessJob({"hosts": 1}))
    assert job_loads(job.dumps()).apply_id == job.apply_id
    loaded.kill()
    assert not job.can_run(job)


def test_a_file_that_others_could_have_written_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "job.pkl"
    path.write_bytes(LocalJob().dumps())
    path.chmod(0o666)
    with pytest.raises(PermissionError, match="others than this user"):
        job_load(str(path))
    with pytest.raises(FileNotFoundError):
        job_load(str(tmp_path / "absent"))
    with pytest.raises(TypeError, match="not a job"):
        job_loads(pickle.dumps(1))


def test_jobs_of_schedulers_say_that_they_come_later() -> None:
    with pytest.raises(ImportError, match=r"SlurmJob is not part of this version.*attach_to_workers"):
        from monarch.job import SlurmJob  # noqa: F401


PROGRAM = """
import os, signal, sys
from monarch.job import ProcessJob, job_load
from host_actors import Placed

job = ProcessJob({"hosts": 2}, detached=sys.argv[2] == "detached", idle_timeout=1.0)
state = job.state(cached_path=sys.argv[1] if sys.argv[2] == "cached" else None)
placed = state.hosts.spawn_procs().spawn("placed", Placed)
print(*job._pids.values(), flush=True)
placed.where.call().get()
if sys.argv[3] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _run(tmp_path: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], str]:
    environment, mark = marked_environment()
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "state.pkl"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100), mark


@pytest.mark.parametrize("end", ["returns", "killed"])
def test_workers_end_with_the_program_that_made_them(end: str, tmp_path: Path) -> None:
    outcome, mark = _run(tmp_path, "plain", end)
    assert outcome.returncode == (0 if end == "returns" else -signal.SIGKILL), outcome.stderr
    assert_gone(lambda: marked_processes(mark), "after the program's end")


@pytest.mark.parametrize("how", ["detached", "cached"])
def test_workers_that_outlive_their_program_end_when_nobody_comes(how: str, tmp_path: Path) -> None:
    outcome, mark = _run(tmp_path, how, "returns")
    assert outcome.returncode == 0, outcome.stderr
    if how == "cached":
        loaded = job_load(str(tmp_path / "state.pkl"))
        assert [str(pid) for pid in _pids(loaded)] == outcome.stdout.split()
    assert_gone(lambda: marked_processes(mark), "after nobody came for the idle timeout")
