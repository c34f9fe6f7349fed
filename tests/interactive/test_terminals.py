"""Python's own prompt and IPython's, at a terminal: what is typed there, Ctrl-C included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from terminals import CTRL_C, CTRL_D, Terminal

Open = Callable[..., Terminal]

ACTORS = """
import asyncio, os
from monarch.actor import Actor, endpoint, this_host
from watching import when_at

class Waits(Actor):
    @endpoint
    async def wait(self):
        await asyncio.Event().wait()
    @endpoint
    async def answer(self):
        print("asked")
        return 6 * 7

"""

CLASS_AGAIN = """
class Waits(Actor):
    @endpoint
    async def answer(self): return 'another answer'

"""


@pytest.fixture
def open_terminal(tmp_path: Path, environment: dict[str, str]) -> Iterator[Open]:
    opened: list[Terminal] = []

    def start(*command: str) -> Terminal:
        opened.append(Terminal([sys.executable, *command], tmp_path, environment))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def use(terminal: Terminal, *prompt: str) -> None:
    """A session: actors whose class is typed in, a call that is interrupted, and a class that is typed in again."""

    def read_to_prompt() -> str:
        return "".join(terminal.read_until(part) for part in prompt)

    def enter(code: str) -> str:
        terminal.enter(code)
        terminal.read_until("\n")  # its echo
        return read_to_prompt()

    for line in ACTORS.splitlines():
        terminal.enter(line)
    terminal.enter("procs = this_host().spawn_procs({'gpus': 2}, name='procs'); print('begun', 1)")
    terminal.read_until("begun 1")
    read_to_prompt()
    enter("waits = procs.spawn('waits', Waits)")
    assert "42, 42" in enter("[*waits.answer.call().get().values()]")
    terminal.enter("when_at('replies.wait(', lambda: print('it', 'waits')); waits.wait.call().get()")
    terminal.read_until("it waits")
    terminal.type(CTRL_C)
    terminal.read_until("KeyboardInterrupt")
    read_to_prompt()
    # Served only if the call before has ended.
    assert "42, 42" in enter("[*waits.answer.call().get(timeout=60).values()]")
    for line in CLASS_AGAIN.splitlines():
        terminal.enter(line)
    terminal.enter("print('begun', 2)")
    terminal.read_until("begun 2")
    read_to_prompt()
    assert "'another answer'" in enter("procs.spawn('waits', Waits).slice(gpus=0).answer.call_one().get()")


def test_what_is_typed_at_pythons_prompt_works_and_ctrl_c_ends_only_the_call(open_terminal: Open) -> None:
    python = open_terminal("-i", "-q")
    python.read_until(">>> ")
    use(python, ">>> ")
    python.type(CTRL_D)
    _, status = python.read_to_the_end()
    assert status == 0, python.output


def test_what_is_typed_at_ipythons_prompt_works_and_ctrl_c_ends_only_the_call(
    open_terminal: Open, tmp_path: Path
) -> None:
    options = ["--simple-prompt", "--no-banner", "--no-confirm-exit", "--HistoryManager.enabled=False"]
    ipython = open_terminal("-m", "IPython", f"--ipython-dir={tmp_path}", *options)
    ipython.read_until("In [1]: ")
    use(ipython, "In [", "]: ")
    ipython.enter("await waits.slice(gpus=0).answer.call_one()")
    # What the cell's processes print is shown before the next prompt.
    shown = ipython.read_until("In [")
    assert "[procs 0] asked" in shown and "42" in shown, ipython.output
    ipython.read_until("]: ")
    ipython.enter("exit")
    _, status = ipython.read_to_the_end()
    assert status == 0, ipython.output
