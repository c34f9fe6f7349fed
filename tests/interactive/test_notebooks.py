"""Notebooks: a real kernel runs cells, and what appears below them is looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import assert_gone, marked_environment, marked_processes
from notebooks import Session, session


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A kernel for all of these tests, as one is started in seconds; nothing may be left when it is shut down."""
    environment, mark = marked_environment()
    environment.pop("PYTEST_CURRENT_TEST", None)  # else a kernel leaves what is printed to pytest
    # On a slow machine, too, equal lines of several ranks are one, and nothing is shown of how far a start has come.
    environment |= {"MONARCH_LOG_FOLD_WINDOW": "60s", "MONARCH_SHOW_PROGRESS": "0"}
    environment["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).parent}"
    with session(tmp_path_factory.mktemp("notebook"), environment) as kernel:
        yield kernel
    assert_gone(lambda: marked_processes(mark), "after the kernel was shut down")


IMPORTS = """
import asyncio, os, signal
from monarch.actor import Actor, ActorError, current_rank, endpoint, this_host
"""


def test_a_cell_that_is_run_again_replaces_its_class(kernel: Session) -> None:
    cells = [
        IMPORTS + "procs = this_host().spawn_procs()",
        "class Greeter(Actor):\n    @endpoint\n    def greet(self): return 'hello'",
        "first = procs.spawn('greeter', Greeter)\nfirst.greet.call_one().get()",
        "class Greeter(Actor):\n    @endpoint\n    def greet(self, whom): return f'goodbye, {whom}'",
        "procs.spawn('greeter', Greeter).greet.call_one('you').get(), first.greet.call_one().get()",
    ]
    outputs = kernel.run(*cells)
    assert outputs[2].result() == "'hello'"
    assert outputs[4].result() == "('goodbye, you', 'hello')"


def test_get_and_await_serve_in_the_same_cell_and_nothing_nags(kernel: Session) -> None:
    cells = [
        IMPORTS + "class Echo(Actor):\n    @endpoint\n    async def echo(self, value): return value",
        "async with this_host().spawn_procs({'gpus': 2}) as procs:\n"
        "    echo = procs.spawn('echo', Echo)\n"
        "    print(echo.echo.call(1).get(timeout=20).item(gpus=1), (await echo.echo.call(2)).item(gpus=1))\n"
        "    print(await asyncio.gather(*(echo.slice(gpus=0).echo.call_one(n) for n in range(3))))",
    ]
    _, second = kernel.run(*cells)
    assert [(output.name, output.text) for output in second] == [("stdout", "1 2\n[0, 1, 2]\n")]


CHATTERBOX = f"""{IMPORTS}
class Chatterbox(Actor):
    @endpoint
    def say(self, *words):
        for word in words:
            print(word)
            os.system(f"echo {{word}}, says a child, 1>&2")
    @endpoint
    def say_later(self, word, after):
        while not os.path.exists(after):
            pass
        print(word)
        os.unlink(after)
"""


def test_what_processes_print_is_below_the_cell_that_ran_when_they_did(
    kernel: Session,
) -> None:
    cells = [
        CHATTERBOX + "procs = this_host().spawn_procs({'gpus': 2}, name='procs')",
        "boxes = procs.spawn('boxes', Chatterbox)\nboxes.say.call('one', 'two').get()\nprint('the cell itself')",
        "boxes.say.call('three').get()",
        "raised = boxes.say.call('four').get()\nraise ValueError('the cell ends so')",
        "boxes.slice(gpus=0).say_later.broadcast('five', 'go')",
        # Only what is printed while a cell waits for it is certain to be printed while that runs.
        "open('go', 'w').close()\nwhile os.path.exists('go'): pass",
    ]
    outputs = kernel.run(*cells)
    assert outputs[0].text() == ""
    # Which of two that print at the same time comes first is nobody's word.
    assert sorted(outputs[1].text().splitlines()) == ["[procs 0-1] one", "[procs 0-1] two", "the cell itself"]
    assert outputs[1].text("stderr") == "[procs 0-1] one, says a child,\n[procs 0-1] two, says a child,\n"
    assert outputs[2].text() == "[procs 0-1] three\n"
    assert (outputs[3].text(), outputs[3].error()) == ("[procs 0-1] four\n", "ValueError")
    assert outputs[4].text() == ""
    assert outputs[5].text() == "[procs 0] five\n"


WAITS = f"""{IMPORTS}
from watching import when_at

class Waits(Actor):
    @endpoint
    async def wait(self): await asyncio.Event().wait()
    @endpoint
    async def answer(self): return 42

waits = this_host().spawn_procs({{'gpus': 2}}).spawn('waits', Waits)
one = waits.slice(gpus=0)

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)  # as the button does
"""


def test_an_interrupt_ends_the_cell_and_its_call_and_the_cluster_goes_on(kernel: Session) -> None:
    answer = "waits.answer.call().get(timeout=30).item(gpus=0)"  # served only if the call before has ended
    cells = [
        WAITS,
        "when_at('replies.wait(', interrupt)\none.wait.call_one().get()",
        answer,
        "when_at('_selector.poll(', interrupt)\nawait one.wait.call_one()",
        answer,
        "kept = one.wait.call_one()\nwhen_at('replies.wait(', interrupt)\nkept.get(timeout=60)",
        # A future that the program keeps can be waited for again; here it is given up.
        f"print(kept.done(), kept.cancel())\n{answer}",
    ]
    outputs = kernel.run(*cells)
    assert outputs[1].error() == "KeyboardInterrupt"
    assert outputs[2].result() == "42"
    assert outputs[3].error() == "CancelledError"
    assert outputs[4].result() == "42"
    assert outputs[5].error() == "KeyboardInterrupt"
    assert (outputs[6].text(), outputs[6].result()) == ("False True\n", "42")


FAILS = f"""{IMPORTS}
class Fails(Actor):
    @endpoint
    def fail(self): raise ValueError('nobody handles this')
    @endpoint
    def answer(self): return 42
fails = this_host().spawn_procs().spawn('fails', Fails)
other = this_host().spawn_procs().spawn('other', Fails)
"""


def test_a_failure_in_a_notebook_is_raised_at_the_next_wait_and_the_kernel_lives(
    kernel: Session,
) -> None:
    cells = [
        FAILS,
        # Ends the cell that runs.
        "import time\nfails.fail.broadcast()\nwhile True: time.sleep(3600)",
        "other.answer.call_one().get(timeout=30)",
        # Waits for the prompt of the kernel, and only then fails.
        "import threading\n"
        "idle = threading.Event()\n"
        "def fail():\n"
        "    idle.wait()\n"
        "    other.fail.broadcast()\n"
        "get_ipython().events.register('post_run_cell', lambda result: idle.set())\n"
        "threading.Thread(target=fail).start()",
        # Whichever of these meets the failure ends by it, and it ends only one of them.
        "from monarch._actor import context\n"
        "deadline = time.monotonic() + 30\n"
        "while context._process.unhandled is None and time.monotonic() < deadline: pass",
        "procs = this_host().spawn_procs()",
        "procs = this_host().spawn_procs()\nprocs.spawn('again', Fails).answer.call_one().get(timeout=30)",
    ]
    outputs = kernel.run(*cells)
    assert (outputs[1].error(), outputs[2].result()) == ("UnhandledFailure", "42")
    assert [output.error() for output in outputs[4:6]].count("UnhandledFailure") == 1
    assert (outputs[6].error(), outputs[6].result()) == (None, "42")


def test_handles_are_shown_as_tables(kernel: Session) -> None:
    cells = [
        IMPORTS
        + "class Echo(Actor):\n    @endpoint\n    def echo(self, value): return value\n"
        + "procs = this_host().spawn_procs({'gpus': 2}, name='<procs>')\necho = procs.spawn('e&o', Echo)",
        "procs",
        "echo",
        "echo.echo.call('<b>').get()",
        "future = echo.echo.call(1)\nfuture.get()\nfuture",
        "this_host()",
    ]
    _, procs, actors, values, future, host = (outputs.result("text/html") for outputs in kernel.run(*cells))
    assert procs is not None and "&lt;procs&gt;" in procs and procs.count("● alive") == 2
    assert actors is not None and "e&amp;o" in actors and "Echo" in actors
    assert values is not None and values.count("&#x27;&lt;b&gt;&#x27;") == 2
    assert future is not None and "e&amp;o.echo" in future and "done" in future
    assert host is not None and "HostMesh" in host
    for html in (procs, actors, values, future, host):
        # Readable in light and in dark: the notebook says what colours are.
        assert "color" not in html and "background" not in html


def test_a_cell_shows_how_far_a_start_has_come(kernel: Session) -> None:
    cells = [
        IMPORTS + "from watching import when_at\n"
        "from monarch._actor import progress\n"
        "import monarch.config\n"
        "monarch.config.configure(show_progress=True)\n"
        "def wait_for_go():\n"
        "    while not os.path.exists('begin'): pass\n"
        "def go(): open('begin', 'w').close()",
        "procs = this_host().spawn_procs({'gpus': 2}, bootstrap=wait_for_go)\n"
        "when_at('if replies.wait(count, left)', go)\n"
        "procs.initialized.get()",
        "os.unlink('begin')\n"
        "shown = []\n"
        "class Noted(progress._Cell):\n"
        "    def show(self, text):\n"
        "        super().show(text); shown.append(text); go()\n"
        "progress._Cell = Noted\n"
        "await this_host().spawn_procs({'gpus': 2}, bootstrap=wait_for_go, name='procs').initialized\n"
        "shown[0]",
    ]
    _, blocked, awaited = kernel.run(*cells)
    for outputs in (blocked, awaited):
        # It was there, and has been emptied.
        assert [output.data["text/plain"] for output in outputs if output.output_type == "display_data"] == [""]
    assert (blocked.result(), awaited.result()) == ("True", "'starting processes procs: 0 of 2'")
