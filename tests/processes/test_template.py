"""Workers are copies of a template, and nothing of that shows; where a copy would not do, they are programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from monarch._native import build_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import RunProgram

pytestmark = pytest.mark.skipif(build_info()["platform"] != "linux", reason="workers are programs on this platform")

LOOK = """
    first = start()
    first.pid.call().get()  # the template runs; what changes from now on, it does not see by itself
    os.environ.update(LATE="a=b", TZ="UTC-5")
    del os.environ["EARLY"]
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    os.umask(0o27)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sys.path.append("/a/place")
    sys.argv.append("more")
    print(json.dumps(values(start(2).look.call().get())))
"""


def test_a_copy_is_what_a_program_would_be(run_program: RunProgram, tmp_path: Path) -> None:
    copies = run_program(LOOK, EARLY="1")
    (tmp_path / "elsewhere").rmdir()
    programs = run_program(LOOK, EARLY="1", MONARCH_WORKER_TEMPLATE="none")
    assert copies.starts == [f"worker {n} is a copy of the keeper: nothing more is wanted" for n in range(3)]
    assert programs.starts == []
    copy, other = copies.result
    assert copy == other
    program = programs.result[0]
    for environment in ("environment", "environment at its beginning"):
        assert copy[environment].pop("MONARCH_WORKER_TEMPLATE", None) is None
        assert program[environment].pop("MONARCH_WORKER_TEMPLATE") == "none"
    assert copy.pop("main module") == []
    del program["main module"]  # that of the command, which is no program's
    assert copy == program
    assert copy["environment"]["LATE"] == "a=b"
    assert "EARLY" not in copy["environment"]
    assert copy["umask"] == "0027"
    assert len(copy["affinity"]) == 1
    assert copy["command line"][1:] == ["-m", "monarch._src.actor.bootstrap_main", "3"]


def test_no_two_workers_draw_the_same_numbers(run_program: RunProgram) -> None:
    drawn = run_program("print(json.dumps(values(start(3).draw.call().get())))").result
    assert len({number for numbers in drawn for number in numbers}) == 3 * 2


def test_the_keeper_is_the_parent_of_workers_and_of_their_workers(run_program: RunProgram) -> None:
    body = """
    mesh = start()
    print(json.dumps([mesh.parent.call_one().get(), *mesh.own.call_one().get()]))
    """
    done = run_program(body)
    assert len(set(done.result)) == 1
    assert len(done.starts) == 3
    assert all("copy" in start for start in done.starts)


def test_the_end_of_a_copy_is_told_with_its_status(run_program: RunProgram) -> None:
    body = """
    import monarch.actor
    monarch.actor.unhandled_fault_hook = lambda failure: None

    def reason(call):
        try:
            call.get()
        except Exception as error:
            return str(error)

    exits, killed = start(), start()
    reasons = [reason(exits.end.call_one(7))]
    os.kill(killed.pid.call_one().get(), signal.SIGKILL)
    print(json.dumps([*reasons, reason(killed.wait_for_ever.call_one())]))
    """
    exit_status, killed = run_program(body).result
    assert "7" in exit_status
    assert "SIGKILL" in killed


# --- where copies would not do ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LD_LIBRARY_PATH", "LC_TIME"])
def test_a_variable_that_is_read_at_the_start_makes_programs(run_program: RunProgram, name: str) -> None:
    body = f"""
    start().pid.call().get()
    os.environ["{name}"] = "0"
    print(json.dumps(start().variable.call_one("{name}").get()))
    """
    done = run_program(body)
    assert done.result == "0"
    assert done.starts[1:] == [
        f"worker 1 starts as a program: `{name}` is read only at the start of a program, and has another value"
    ]


def test_another_interpreter_makes_programs(run_program: RunProgram, tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    body = """
    start().pid.call().get()
    sys.executable = os.path.abspath("python")
    print(json.dumps(start().rank.call_one().get()))
    """
    done = run_program(body)
    assert done.result == 0
    assert done.starts[1:] == ["worker 1 starts as a program: its command is another one"]


SITES = {
    "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()": (
        "the start of the interpreter has left 2 threads running"
    ),
    "import sys; sys.settrace(lambda *event: None)": (
        "a debugger, profiler or coverage tool is at work in every interpreter that starts"
    ),
}


@pytest.mark.parametrize("site", SITES)
def test_an_interpreter_that_starts_with_more_makes_programs(
    run_program: RunProgram, tmp_path: Path, site: str
) -> None:
    place = tmp_path / "site"
    place.mkdir()
    (place / "sitecustomize.py").write_text(site)
    done = run_program("print(json.dumps(start().rank.call_one().get()))", PYTHONPATH=str(place))
    assert done.result == 0
    assert done.starts == [f"worker 0 starts as a program: {SITES[site]}"]


def test_a_program_without_standard_output_has_workers_that_have_one(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from monarch.actor import Actor, endpoint, this_host\n"
        "import sys\n"
        "class A(Actor):\n"
        "    @endpoint\n"
        "    def write(self): return sys.stdout.write('text')\n"
        "assert sys.stdout is None\n"
        "sys.exit(this_host().spawn_procs().spawn('a', A).write.call_one().get())\n"
    )
    done = subprocess.run([sys.executable, str(program)], preexec_fn=lambda: os.close(1), timeout=100)
    assert done.returncode == len("text")


def test_a_directory_that_is_gone_is_named(run_program: RunProgram) -> None:
    body = """
    import monarch.actor
    monarch.actor.unhandled_fault_hook = lambda failure: None
    os.mkdir("gone")
    os.chdir("gone")
    procs = this_host().spawn_procs()
    procs.initialized.get()
    os.chdir("..")
    os.rmdir("gone")
    procs.respawn().get()  # nobody has died
    try:
        procs.respawn([0]).get()
        procs.spawn("start", Start).pid.call_one().get()
    except Exception as error:
        print(json.dumps(str(error)))
    """
    assert "cannot enter its directory" in run_program(body).result


def test_an_event_loop_is_loaded_for_actors_that_have_one(run_program: RunProgram) -> None:
    body = """
    from monarch.actor import Actor, endpoint

    class WithLoop(Actor):
        @endpoint
        async def nothing(self): ...

    before = values(start().loaded.call("asyncio").get())
    loops = this_host().spawn_procs({"rank": 2}).spawn("loops", WithLoop)
    after = values(start().loaded.call("asyncio").get())
    loops.nothing.call().get()
    print(json.dumps(before + after))
    """
    assert run_program(body).result == [False, True]


def test_a_copy_ends_as_a_program_does(run_program: RunProgram, tmp_path: Path) -> None:
    body = """
    start().end_later.call(os.path.abspath(os.curdir)).get()
    print("null")
    """
    for template in ("auto", "none"):
        run_program(body, MONARCH_WORKER_TEMPLATE=template)
        assert (tmp_path / "thread").read_text() == "ended"
        assert (tmp_path / "handler").read_text() == "ran"
        assert (tmp_path / "library").read_text() == "in a buffer"
        for name in ("thread", "handler", "library"):
            (tmp_path / name).unlink()
