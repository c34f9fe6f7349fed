"""Python's `logging` in actors: shown without set-up, named after the actor, and the program's own left alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from test_output import BEGIN

Run = Callable[..., subprocess.CompletedProcess[str]]

ACTOR = "[actor=<root>.<printing_actors.Printer printer"


@pytest.fixture
def run(run_program: Run) -> Run:
    def run(code: str) -> subprocess.CompletedProcess[str]:
        done = run_program("-c", BEGIN + code)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_messages_from_info_on_are_shown_with_the_actor(run: Run) -> None:
    done = run(
        """
procs, p = printers(0)
p.log.call_one(logging.DEBUG, "unseen").get()
p.log.call_one(logging.INFO, "loss is %d%%", 5).get()
p.log_by_own.call_one("by its own logger").get()
"""
    )
    assert done.stderr.splitlines() == [
        f"[w 0] INFO printing: {ACTOR}>] loss is 5%",
        f"[w 0] INFO Printer: {ACTOR}>] by its own logger",
    ]


def test_the_name_of_an_actor_is_never_taken_for_a_format(run: Run) -> None:
    spawn = "p = this_host().spawn_procs().spawn('50%s', Printer)"
    done = run(f"{spawn}; p.log.call_one(30, 'x %s', 1).get()")
    assert done.stderr.endswith("Printer 50%s>] x 1\n")


def test_a_programs_own_handlers_replace_ours_and_have_the_name(run: Run) -> None:
    done = run("procs, p = printers(0); p.log_by_basic_config.call_one('text').get()")
    assert done.stderr == f"[w 0] MINE {ACTOR}>] text\n"


def test_the_level_is_set_while_running(run: Run) -> None:
    done = run(
        """
procs, p = printers(0)
procs.logging_option(level=logging.WARNING).get()
p.log.call_one(logging.INFO, "unseen").get()
p.say.call_one("prints are never filtered").get()
procs.logging_option(level=logging.DEBUG).get()
p.log.call_one(logging.DEBUG, "seen").get()
"""
    )
    assert done.stderr == f"[w 0] DEBUG printing: {ACTOR}>] seen\n"
    assert done.stdout == "[w 0] prints are never filtered\n"


def test_a_flag_of_the_process_leaves_the_name_out(run: Run) -> None:
    done = run(
        """
def without_names():
    monarch.actor.config.prefix_python_logs_with_actor = False
procs = this_host().spawn_procs(name="w", bootstrap=without_names)
procs.spawn("printer", Printer).log.call_one(logging.INFO, "text").get()
"""
    )
    assert done.stderr == "[w 0] INFO printing: text\n"


def test_a_thread_that_an_actor_starts_names_it_and_an_empty_message_is_left_alone(run: Run) -> None:
    done = run("procs, p = printers(0); p.log_by_thread.call_one('text').get(); p.log.call_one(20, '').get()")
    assert done.stderr == f"[w 0] INFO printing: {ACTOR}>] text\n[w 0] INFO printing: \n"


def test_the_program_logs_as_it_did_before_also_beside_actors_of_its_own_process(run: Run) -> None:
    done = run(
        """
logging.getLogger("program").info("unseen")
logging.getLogger("program").warning("bare")
here = this_proc().spawn("printer", Printer)
here.log.call_one(logging.WARNING, "from an actor").get()
logging.getLogger("program").warning("bare")
"""
    )
    assert done.stderr == f"bare\n{ACTOR}>] from an actor\nbare\n"


def test_importing_the_actor_api_imports_no_logging_and_no_settings() -> None:
    code = "import sys, monarch.actor; print([name for name in ('logging', 'monarch.config') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
