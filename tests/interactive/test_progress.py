"""How far a start or a transfer has come: shown while it is waited for, where somebody looks, and gone afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminals import Terminal

PROGRAM = """
import os, sys
from monarch.actor import Actor, endpoint, this_host

class Starts(Actor):
    def __init__(self, go):
        while not os.path.exists(go):
            pass
    @endpoint
    def answer(self):
        return 42

def wait_for_go():
    while not os.path.exists("processes"):
        pass

if __name__ == "__main__":
    procs = this_host().spawn_procs({"gpus": 2}, bootstrap=wait_for_go, name="procs")
    procs.initialized.get()
    print("processes are there")
    starts = procs.spawn("actors", Starts, "actors")
    print(list(starts.answer.call().get().values()))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def terminal(program: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal([sys.executable, str(program)], program.parent, environment)
    yield terminal
    terminal.close()


def test_a_terminal_shows_one_line_that_is_erased(terminal: Terminal, program: Path) -> None:
    terminal.read_until("starting processes procs: 0 of 2")
    (program.parent / "processes").touch()
    shown = terminal.read_until("processes are there")
    assert erased(shown), shown
    terminal.read_until("starting actors actors: 0 of 2")
    (program.parent / "actors").touch()
    shown, status = terminal.read_to_the_end()
    assert (erased(shown), status) == (True, 0), shown
    assert "[42, 42]" in shown


def erased(shown: str) -> bool:
    """Whether the first line, which was there before, ends with nothing in sight."""
    line = shown.partition("\n")[0]
    parts = line.split("\r")
    return len(parts) >= 3 and parts[-2].strip() == "" and not parts[-1].startswith("starting")


NOBODY_LOOKS = f"""
from monarch._actor import progress
progress.PATIENCE_S = 0.0
open("processes", "w").close(), open("actors", "w").close()
{PROGRAM}"""


@pytest.mark.parametrize("switched_off", [True, False])
def test_nothing_is_shown_in_a_pipe_or_where_it_is_switched_off(
    switched_off: bool, tmp_path: Path, environment: dict[str, str]
) -> None:
    if switched_off:
        terminal = Terminal(
            [sys.executable, "-c", NOBODY_LOOKS], tmp_path, {**environment, "MONARCH_SHOW_PROGRESS": "0"}
        )
        try:
            shown, status = terminal.read_to_the_end()
        finally:
            terminal.close()
    else:
        done = subprocess.run(
            [sys.executable, "-c", NOBODY_LOOKS],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        shown, status = done.stdout + done.stderr, done.returncode
    assert (shown, status) == ("processes are there\n[42, 42]\n", 0)


SENDS = """
import os, signal
from monarch.actor import Actor, attach_to_workers, endpoint

class Measures(Actor):
    @endpoint
    def length(self, data):
        return len(data)

if __name__ == "__main__":
    hosts = attach_to_workers(ca="trust_all_connections", workers=[os.environ["MONARCH_TEST_HOST"]])
    measures = hosts.spawn_procs().spawn("measures", Measures)
    print("small:", list(measures.length.call(bytes(1)).get().values()))
    os.kill(int(os.environ["MONARCH_TEST_HOST_PID"]), signal.SIGSTOP)
    # Less than the send window, beyond which the send itself would wait for the stopped host's word of room.
    print("large:", list(measures.length.call(bytes(48 << 20)).get().values()))
    hosts.shutdown().get()
"""


def test_a_terminal_shows_how_much_of_a_large_transfer_is_to_go(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["XDG_CONFIG_HOME"] = str(tmp_path)
    (tmp_path / "program.py").write_text(SENDS)
    worker = [sys.executable, "-m", "monarch", "worker", "--listen", "ipc:///" + str(tmp_path / "host").lstrip("/")]
    with subprocess.Popen(worker, env=environment, stdout=subprocess.PIPE, text=True) as host:
        try:
            assert host.stdout is not None
            address = host.stdout.readline().split()[-1]
            reached = {"MONARCH_TEST_HOST": address, "MONARCH_TEST_HOST_PID": str(host.pid)}
            terminal = Terminal([sys.executable, "program.py"], tmp_path, {**environment, **reached})
            try:
                # The host is stopped, so all but what the system takes waits.
                terminal.read_until(" MB to go")
                host.send_signal(signal.SIGCONT)
                shown, status = terminal.read_to_the_end()
            finally:
                terminal.close()
            assert (status, "large: [50331648]" in shown) == (0, True), shown
            assert terminal.output.count("sending: ") and "MB to go" not in shown.rpartition("\r")[2]
            assert host.wait(60) == 0
        finally:
            host.kill()
