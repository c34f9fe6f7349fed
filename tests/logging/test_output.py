"""What workers write is shown by the client, once, with whose it is."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[[str], subprocess.CompletedProcess[str]]

BEGIN = f"""
import logging, os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import monarch.actor
from monarch.actor import *
from monarch.config import configure, configured
from printing_actors import Printer
monarch.actor.unhandled_fault_hook = lambda failure: None
def printers(count=2, name="w"):
    procs = this_host().spawn_procs({{"gpus": count}} if count else None, name=name)
    return procs, procs.spawn("printer", Printer)
"""


@pytest.fixture
def run(run_program: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> Run:
    """Run a client program; what is written at descriptors of the program itself is at the end of its output."""

    def run(code: str, **options: object) -> subprocess.CompletedProcess[str]:
        done = run_program("-c", BEGIN + textwrap.dedent(code), errors="surrogateescape", **options)
        assert done.returncode == 0, done.stderr
        return done

    return run


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def test_each_line_is_shown_once_on_the_stream_that_it_was_written_to(run: Run) -> None:
    done = run("procs, p = printers(0); p.say.call_one('out').get(); p.complain.call_one('err').get()")
    assert (done.stdout, done.stderr) == ("[w 0] out\n", "[w 0] err\n")


def test_equal_lines_of_several_ranks_are_one(run: Run) -> None:
    done = run("configure(log_fold_window='1h'); procs, p = printers(4); p.say.call('ready').get()")
    assert done.stdout == "[w 0-3] ready\n"


def test_different_lines_are_not_folded(run: Run) -> None:
    done = run("configure(log_fold_window='1h'); procs, p = printers(2); p.say_own.call(['a 1', 'a 2']).get()")
    assert lines(done.stdout) == ["[w 0] a 1", "[w 1] a 2"]


def test_an_option_folds_lines_that_differ_in_numbers_and_shows_the_extremes(run: Run) -> None:
    done = run(
        """
        procs, p = printers(3)
        procs.logging_option(stream_to_client=True, aggregate_window_sec=1000).get()
        p.say_own.call(["loss 0.5", "loss 0.25", "loss 10"]).get()
        """
    )
    assert done.stdout == "[w 0-2] loss 0.25..10\n"


def test_showing_is_switched_off_and_on_while_running(run: Run) -> None:
    done = run(
        """
        procs, p = printers(0)
        p.say.call_one("one").get()
        procs.logging_option(stream_to_client=False).get()
        p.say.call_one("two").get()
        procs.logging_option(stream_to_client=True).get()
        p.say.call_one("three").get()
        """
    )
    assert done.stdout == "[w 0] one\n[w 0] three\n"


def test_an_option_can_be_awaited(run: Run) -> None:
    done = run(
        """
        import asyncio
        procs, p = printers(0)
        async def main():
            await procs.logging_option(stream_to_client=False)
            await p.say.call_one("unseen")
        asyncio.run(main())
        """
    )
    assert done.stdout == ""


def test_a_mesh_begins_as_the_keys_say(run: Run) -> None:
    done = run(
        """
        with configured(enable_log_forwarding=False):
            assert not this_host().stream_logs
            silent, s = printers(0, "silent")
        with configured(prefix_with_rank=False):
            plain, p = printers(0, "plain")
        s.say.call_one("unseen").get()
        p.say.call_one("seen").get()
        """
    )
    assert done.stdout == "[plain] seen\n"


def test_output_of_child_processes_and_native_libraries_is_shown(run: Run) -> None:
    done = run("procs, p = printers(0); p.run.call_one('echo child').get(); p.say_by_c.call_one('native').get()")
    assert done.stdout == "[w 0] child\n[w 0] native\n"


def test_output_of_a_workers_worker_is_shown(run: Run) -> None:
    done = run("procs, p = printers(0); p.start_own.call_one().get()")
    assert done.stdout == "[inner 0] from a worker's worker\n"


def test_what_a_dying_worker_wrote_last_is_shown_without_an_end_of_line(run: Run) -> None:
    done = run(
        """
        procs, p = printers(0)
        try: p.die.call_one("whole\\nhalf").get()
        except SupervisionError: pass
        """
    )
    assert done.stdout == "[w 0] whole\n[w 0] half\n"


def test_bytes_that_are_no_text_pass_through(run: Run) -> None:
    done = run("procs, p = printers(0); p.write.call_one(1, bytes(range(11, 256)) + b'\\n').get()")
    shown = done.stdout.encode("utf-8", "surrogateescape")
    # The prefix, then what a terminal shows after the carriage return.
    assert shown == b"[w 0] " + bytes(range(14, 256)) + b"\n"


def test_a_very_long_line_arrives_whole_in_pieces(run: Run) -> None:
    done = run("procs, p = printers(0); p.say.call_one('x' * 3_000_000).get()")
    pieces = done.stdout.splitlines()
    assert all(piece.startswith("[w 0] x") for piece in pieces)
    assert sum(piece.count("x") for piece in pieces) == 3_000_000


def test_a_progress_bar_is_shown_in_its_last_state(run: Run) -> None:
    done = run("procs, p = printers(0); p.write.call_one(2, b'10%\\r50%\\r100%\\n').get()")
    assert done.stderr == "[w 0] 100%\n"


def test_output_goes_where_the_program_directs_its_own_streams(run: Run) -> None:
    done = run(
        """
        os.write(1, b"begin\\n")
        procs, p = printers(0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        p.say.call_one("unseen").get()
        """
    )
    assert done.stdout == "begin\n"


def test_nobody_reads_and_the_program_ends_all_the_same(run: Run) -> None:
    done = run(
        """
        procs, p = printers(0)
        read, write = os.pipe()
        os.dup2(write, 1)
        os.close(write)
        os.close(read)
        p.say.call_one("to nobody").get()
        p.complain.call_one("to the other").get()
        """
    )
    assert done.stderr == "[w 0] to the other\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("stream_to_client=1", "TypeError"),
        ("aggregate_window_sec='3'", "TypeError"),
        ("aggregate_window_sec=-1", "ValueError"),
        ("aggregate_window_sec=3, stream_to_client=False", "RuntimeError"),
        ("level='INFO'", "TypeError"),
        ("level=256", "ValueError"),
    ],
)
def test_wrong_options_are_refused(arguments: str, error: str) -> None:
    from monarch._actor.logs import check_options

    given = {"stream_to_client": None, "aggregate_window_sec": None, "level": 20, **eval(f"dict({arguments})")}
    with pytest.raises(__builtins__[error] if isinstance(__builtins__, dict) else getattr(__builtins__, error)):
        check_options(given["stream_to_client"], given["aggregate_window_sec"], given["level"])
