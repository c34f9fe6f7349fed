"""What workers on other hosts write is shown by the client, once, with whose it is, and kept where they run."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import assert_gone, marked_environment, marked_processes
from host_programs import HostProgram

Start = Callable[..., HostProgram]
Run = Callable[..., subprocess.CompletedProcess[str]]

ACTORS = str(Path(__file__).parents[1] / "logging")

BEGIN = f"""
import logging, os, signal, sys
sys.path.insert(0, {ACTORS!r})
import monarch.actor
from monarch.actor import *
from monarch.config import configure
from printing_actors import Printer
monarch.actor.unhandled_fault_hook = lambda failure: None
def attached():
    return attach_to_workers(ca="trust_all_connections", workers=sys.argv[1:])
def all_is_shown():
    "What was written until now is here from every host: the end of a process lets out what waits for equal lines."
    from monarch._actor.context import process
    assert process().runtime.flush_logs(30.0)
def printers(gpus=0, name="w"):
    procs = attached().spawn_procs({{"gpus": gpus}} if gpus else None, name=name)
    return procs, procs.spawn("printer", Printer)
"""


@pytest.fixture
def run(start_host: Start, tmp_path: Path) -> Iterator[Run]:
    """Run a client program that attaches hosts named `a`, `b`, …; each keeps logs in a directory of its name."""
    marks: list[str] = []
    programs: dict[str, HostProgram] = {}

    def run(code: str, hosts: str = "ab", **variables: str) -> subprocess.CompletedProcess[str]:
        for name in hosts:
            if name not in programs:
                log_dir = str(tmp_path / name)
                programs[name] = start_host("tcp://127.0.0.1:0", "--name", name, MONARCH_LOG_DIR=log_dir)
        environment, mark = marked_environment()
        marks.append(mark)
        environment.update({"MONARCH_LOG_DIR": str(tmp_path / "client"), **variables})
        program = BEGIN + textwrap.dedent(code)
        command = [sys.executable, "-c", program, *(programs[name].address for name in hosts)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    yield run
    for mark in marks:
        assert_gone(lambda mark=mark: marked_processes(mark), "after the client's end")


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def kept(directory: Path) -> dict[str, str]:
    """What the only run has in its files, by mesh and file."""
    (run,) = directory.iterdir()
    return {str(file.relative_to(run)): file.read_text() for file in run.glob("*/*.log")}


def test_each_line_is_shown_once_with_mesh_rank_and_host(run: Run) -> None:
    done = run(
        """
        procs, p = printers()
        p.say_own.call(["one", "two", "three", "four"]).get()
        p.slice(hosts=2).complain.call_one("mine").get()
        p.slice(hosts=1).run.call_one("echo child").get()
        """,
        hosts="abcd",
    )
    assert lines(done.stdout) == ["[w 0 a] one", "[w 1 b] child", "[w 1 b] two", "[w 2 c] three", "[w 3 d] four"]
    assert done.stderr == "[w 2 c] mine\n"


def test_equal_lines_of_several_hosts_are_one(run: Run) -> None:
    code = "configure(log_fold_window='1h'); procs, p = printers(2); p.say.call('ready').get(); all_is_shown()"
    done = run(code, hosts="abcd")
    assert done.stdout == "[w 0-7 a,b,c,d] ready\n"


def test_the_client_s_own_host_folds_with_others(run: Run) -> None:
    done = run(
        """
        configure(log_fold_window='1h')
        here = this_host().spawn_procs(name="near")
        procs, p = printers()
        p.say.call("ready").get()
        here.spawn("near", Printer).say.call_one("ready").get()
        all_is_shown()
        """
    )
    assert lines(done.stdout) == ["[near 0] ready", "[w 0-1 a,b] ready"]


def test_options_apply_on_every_host_while_running(run: Run) -> None:
    done = run(
        """
        procs, p = printers()
        procs.logging_option(stream_to_client=False).get()
        p.say.call("unseen").get()
        procs.logging_option(stream_to_client=True, level=logging.WARNING).get()
        p.say_own.call(["loss 1", "loss 2"]).get()
        p.log.call(logging.INFO, "unseen").get()
        procs.logging_option(stream_to_client=True, aggregate_window_sec=1000).get()
        all_is_shown()
        p.say_own.call(["loss 0.5", "loss 0.25"]).get()
        all_is_shown()
        """
    )
    assert lines(done.stdout) == ["[w 0 a] loss 1", "[w 0-1 a,b] loss 0.25..0.5", "[w 1 b] loss 2"]
    assert done.stderr == ""


def test_a_respawned_process_has_the_options_of_its_mesh(run: Run) -> None:
    done = run(
        """
        procs, p = printers()
        procs.logging_option(stream_to_client=True, level=logging.ERROR).get()
        first = p.slice(hosts=0)
        try: first.die.call_one("").get()
        except SupervisionError: pass
        procs.respawn().get()
        p.respawn().get()
        first.log.call_one(logging.WARNING, "unseen").get()
        first.log.call_one(logging.ERROR, "seen").get()
        procs.logging_option(stream_to_client=False).get()
        try: first.die.call_one("").get()
        except SupervisionError: pass
        procs.respawn().get()
        p.respawn().get()
        first.say.call_one("unseen").get()
        """
    )
    assert done.stdout == ""
    assert [line.split("] ")[-1] for line in done.stderr.splitlines()] == ["seen"]


def test_output_of_a_worker_s_worker_is_shown(run: Run) -> None:
    done = run("procs, p = printers(); p.slice(hosts=1).start_own.call_one().get()")
    assert done.stdout == "[inner 0 b] from a worker's worker\n"


def test_what_a_dying_worker_wrote_last_is_shown_and_quoted(run: Run, tmp_path: Path) -> None:
    done = run(
        """
        procs, p = printers()
        second = p.slice(hosts=1)
        second.complain.call_one("CUDA out of memory").get()
        try: second.die.call_one("whole\\nhalf").get()
        except SupervisionError as error: os.write(1, f"{error}\\n".encode())
        """
    )
    shown = [line for line in done.stdout.splitlines() if line.startswith("[w")]
    assert shown == ["[w 1 b] whole", "[w 1 b] half"]
    assert f"(all of it is in {tmp_path}/b/" in done.stdout
    assert "/w/1.stderr.log on b):\n  CUDA out of memory" in done.stdout


def test_files_are_on_the_host_where_their_process_runs(run: Run, tmp_path: Path) -> None:
    run("configure(enable_log_forwarding=False); procs, p = printers(2); p.say.call('x').get()")
    for host, ranks in (("a", (0, 1)), ("b", (2, 3))):
        files = {name: text for name, text in kept(tmp_path / host).items() if text}
        assert files == {f"w/{rank}.stdout.log": "x\n" for rank in ranks}
    assert not (tmp_path / "client").exists() or kept(tmp_path / "client") == {}


def test_the_client_s_configuration_reaches_hosts(run: Run, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    run(f"configure(log_dir={str(shared)!r}); procs, p = printers(); p.say.call('x').get()")
    assert {name: text for name, text in kept(shared).items() if text} == {
        "w/0.stdout.log": "x\n",
        "w/1.stdout.log": "x\n",
    }
    done = run("configure(enable_file_capture=False); procs, p = printers(); p.say.call('shown').get()")
    assert sum(line.endswith("shown") for line in done.stdout.splitlines()) in (1, 2)
    assert not (tmp_path / "a").exists()


def test_a_host_without_room_for_files_says_so_and_output_is_shown(run: Run, start_host: Start, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    done = run("procs, p = printers(); p.say.call_one('x').get()", hosts="a")
    assert done.stderr.count("monarch: on a: cannot keep log files in") == 1
    assert done.stdout == "[w 0 a] x\n"


def test_every_line_of_living_and_killed_workers_arrives_once_and_in_order(run: Run) -> None:
    done = run(
        """
        procs, p = printers(2)
        procs.logging_option(stream_to_client=True).get()
        members = list(p.flatten("rank"))
        dying = [members[rank].count_and_die.call_one(1000) for rank in (1, 6)]
        calls = dying + [members[rank].count.call_one(2000) for rank in range(8) if rank not in (1, 6)]
        for call in calls: call.exception(60)
        """,
        hosts="abcd",
    )
    for stream, text in enumerate((done.stdout, done.stderr)):
        arrived: dict[str, list[int]] = {}
        for line in text.splitlines():
            prefix, number = line.split("] rank 0 line ")
            arrived.setdefault(prefix, []).append(int(number))
        expected = {
            f"[w {rank} {'abcd'[rank // 2]}": list(range(stream, 1000 if rank in (1, 6) else 2000, 2))
            for rank in range(8)
        }
        assert arrived == expected


def test_calls_are_answered_while_nobody_takes_what_a_host_prints(run: Run) -> None:
    run(
        """
        procs, p = printers()
        read, write = os.pipe()  # that nobody empties
        kept = os.dup(1)
        os.dup2(write, 1)
        for _ in range(50):
            p.say.call("x" * 100_000).get()
        os.dup2(kept, 1)
        os.close(read)
        os.close(write)
        """
    )


def test_a_host_that_is_killed_leaves_whole_files(run: Run, tmp_path: Path) -> None:
    run(
        """
        procs, p = printers()
        p.slice(hosts=1).say.call_one("flushed").get()
        end = p.slice(hosts=1).kill_host_program.call_one()
        assert isinstance(end.exception(60), SupervisionError)
        """
    )
    assert kept(tmp_path / "b")["w/1.stdout.log"] == "flushed\n"
