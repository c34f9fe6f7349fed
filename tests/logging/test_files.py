"""Where the output of workers is kept."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import marked_environment
from test_output import BEGIN

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(run_program: Run, tmp_path: Path) -> Run:
    def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment, _ = marked_environment()
        environment["MONARCH_LOG_DIR"] = str(tmp_path / "logs")
        environment.update(variables)
        done = run_program("-c", BEGIN + code, env=environment)
        assert done.returncode == 0, done.stderr
        return done

    return run


def kept(directory: Path) -> dict[str, str]:
    """What the only run has in its files, by mesh and file."""
    (run,) = directory.iterdir()
    return {str(file.relative_to(run)): file.read_text() for file in run.glob("*/*.log")}


def test_every_rank_has_a_file_for_each_stream_with_all_that_it_wrote(run: Run, tmp_path: Path) -> None:
    unseen = "configure(enable_log_forwarding=False); procs, p = printers(2)"
    run(f"{unseen}; p.say.call('x').get(); p.complain.call('y').get()")
    files = {f"w/{rank}.{stream}.log": text for rank in "01" for stream, text in (("stdout", "x\n"), ("stderr", "y\n"))}
    assert kept(tmp_path / "logs") == files


def test_meshes_of_one_name_have_directories_of_their_own(run: Run, tmp_path: Path) -> None:
    run("a, p = printers(0); b, q = printers(0); p.say.call('x').get(); q.say.call('y').get()")
    files = kept(tmp_path / "logs")
    assert (files["w/0.stdout.log"], files["w-2/0.stdout.log"]) == ("x\n", "y\n")


def test_the_default_is_the_state_directory(run: Run, tmp_path: Path) -> None:
    run("procs, p = printers(0); p.say.call('x').get()", MONARCH_LOG_DIR="", XDG_STATE_HOME=str(tmp_path / "state"))
    assert kept(tmp_path / "state" / "monarch")["w/0.stdout.log"] == "x\n"


def test_a_respawned_process_goes_on_with_its_file_and_nothing_is_shown_twice(run: Run, tmp_path: Path) -> None:
    done = run(
        """
procs, p = printers(0)
try: p.die.call_one("first\\n").get()
except SupervisionError: pass
procs.respawn().get()
p.respawn().get()
p.say.call_one("second").get()
"""
    )
    assert done.stdout == "[w 0] first\n[w 0] second\n"
    assert kept(tmp_path / "logs")["w/0.stdout.log"] == "first\nsecond\n"


def test_the_last_ten_runs_are_kept(run: Run, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for number in range(12):
        (logs / f"old{number}").mkdir(parents=True)
        (logs / f"old{number}" / ".lock").touch()
    run("procs, p = printers(0); p.say.call('x').get()")
    assert len(list(logs.iterdir())) == 10


def test_without_file_capture_output_is_shown_and_not_kept(run: Run, tmp_path: Path) -> None:
    done = run("procs, p = printers(0); p.say.call('x').get()", HYPERACTOR_MESH_ENABLE_FILE_CAPTURE="0")
    assert (done.stdout, done.stderr) == ("[w 0] x\n", "")
    assert not (tmp_path / "logs").exists()


def test_where_no_file_can_be_made_that_is_said_once_and_output_is_shown(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(
        "procs, p = printers(2); p.say.call('x').get(); printers(0, 'other')", MONARCH_LOG_DIR=str(tmp_path / "file")
    )
    assert done.stderr.count("cannot keep log files in") == 1
    assert "MONARCH_LOG_DIR" in done.stderr
    assert sum(line.endswith(" x") for line in done.stdout.splitlines()) in (1, 2)


def test_a_worker_that_prints_is_not_held_up_by_a_client_that_reads_nothing(run: Run, tmp_path: Path) -> None:
    run(
        """
procs, p = printers(0)
read, write = os.pipe()  # that nobody empties
kept = os.dup(1)
os.dup2(write, 1)
p.say.call_one("x" * 1_000_000).get()
os.dup2(kept, 1)
os.close(read)
os.close(write)
"""
    )
    assert len(kept(tmp_path / "logs")["w/0.stdout.log"]) == 1_000_001
