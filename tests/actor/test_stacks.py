"""`dump_stacks`: what every thread of every rank is doing, also where no interpreter could tell."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import eventually
from monarch.actor import Actor, ProcMesh, current_rank, endpoint, this_host, this_proc


class Busy(Actor):
    @endpoint
    def spin(self, begun: str, end: str) -> None:
        Path(f"{begun}-{current_rank().rank}").touch()
        while not os.path.exists(end):
            pass

    @endpoint
    def hold_the_interpreter(self, begun: str, end: str) -> None:
        """In C, without letting another thread run Python: until somebody writes to the pipe at `end`."""
        pipe = os.open(end, os.O_RDWR)
        byte = ctypes.create_string_buffer(1)
        Path(begun).touch()
        ctypes.PyDLL(None).read(pipe, byte, 1)
        os.close(pipe)

    @endpoint
    def pid(self) -> int:
        return os.getpid()


def test_equal_stacks_are_one_with_the_ranks_that_have_them(grid: ProcMesh, tmp_path: Path) -> None:
    busy = grid.spawn("busy", Busy)
    spins = busy.slice(row=0).spin.call(str(tmp_path / "begun"), str(tmp_path / "end"))
    busy.slice(row=1).pid.call().get(timeout=20)
    eventually(lambda: len(list(tmp_path.glob("begun*"))) == 2, "both spin")
    dump = busy.dump_stacks(timeout=30).get()
    assert not dump.missing
    spinning = [stack for stack in dump.stacks if any(function == "spin" for _, _, function in stack.frames)]
    # They may be seen in two places of their loop.
    assert sorted(point.rank for stack in spinning for point in stack.ranks) == [0, 1]
    assert all(stack.threads == ("busy",) and "in spin\n" in str(stack) for stack in spinning)

    def idle() -> list[tuple[list[int], str]]:
        stacks = [stack for stack in busy.slice(row=1).dump_stacks(timeout=30).get().stacks if "busy" in stack.threads]
        return [([point.rank for point in stack.ranks], str(stack)) for stack in stacks]

    # Who has answered may be about to wait, yet.
    eventually(lambda: idle() == [([0, 1], "  waits for messages")], "the others are seen to wait")
    assert "busy [0-1], thread busy:\n  waits for messages" in str(busy.slice(row=1).dump_stacks(timeout=30).get())
    (tmp_path / "end").touch()
    spins.get(timeout=20)


def test_an_interpreter_that_lets_nobody_in_is_seen_from_outside(one: ProcMesh, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "end")
    busy = one.spawn("busy", Busy)
    holds = busy.hold_the_interpreter.call_one(str(tmp_path / "begun"), str(tmp_path / "end"))
    eventually((tmp_path / "begun").exists, "it has begun")
    end = os.open(tmp_path / "end", os.O_RDWR)
    try:

        def is_in_c() -> bool:
            dump = one.dump_stacks(timeout=30).get()
            assert not dump.missing
            return any("ctypes.PyDLL(None).read(pipe, byte, 1)" in str(stack) for stack in dump.stacks)

        eventually(is_in_c, "it is seen to read")
        # Its thread has no name, as only its interpreter knows that.
        assert all(not stack.threads for stack in one.dump_stacks(timeout=30).get().stacks)
    finally:
        os.write(end, b"!")
        os.close(end)
    holds.get(timeout=20)
    assert busy.pid.call_one().get(timeout=20) > 0


def test_who_does_not_answer_is_named_and_why(spawn_procs: Callable[..., ProcMesh], faults: list[object]) -> None:
    procs = spawn_procs(per_host={"gpus": 3}, name="procs")
    pids = list(procs.spawn("busy", Busy).pid.call().get(timeout=20).values())
    os.kill(pids[0], signal.SIGKILL)
    eventually(lambda: "1 of 3 dead" in repr(procs), "the death is known")
    os.kill(pids[1], signal.SIGSTOP)
    try:
        dump = procs.dump_stacks(timeout=1).get()
    finally:
        os.kill(pids[1], signal.SIGCONT)
    dead, stopped, *_ = dump.missing.values()
    assert [point.rank for point in dump.missing][:2] == [0, 1]
    assert dead == f"process procs[gpus=0] (pid {pids[0]} on {os.uname().nodename}) was killed by signal 9 (SIGKILL)"
    assert stopped == "process procs[gpus=1] did not answer within 1 s, though it is not known to be dead"
    assert f"procs [0]: {dead}" in str(dump)


def test_the_program_tells_of_itself(one: ProcMesh) -> None:
    known = threading.Event()

    def waits_for_the_test() -> None:
        known.wait()

    thread = threading.Thread(target=waits_for_the_test, name="a thread of the test")
    thread.start()
    try:
        stacks = this_proc().dump_stacks(timeout=30).get().stacks
    finally:
        known.set()
        thread.join()
    found = next(stack for stack in stacks if "a thread of the test" in stack.threads)
    assert "known.wait()" in str(found)
    assert any("in test_the_program_tells_of_itself" in str(stack) for stack in stacks)


def test_a_host_tells_of_all_processes_on_it(spawn_procs: Callable[..., ProcMesh], tmp_path: Path) -> None:
    procs, others = spawn_procs(per_host={"gpus": 2}, name="procs"), spawn_procs(name="others")
    stopped = spawn_procs(name="stopped")
    stopped.stop().get(timeout=30)
    busy, other = procs.spawn("busy", Busy), others.spawn("other", Busy)
    spins = busy.spin.call(str(tmp_path / "begun"), str(tmp_path / "end"))
    other.pid.call_one().get(timeout=30)
    eventually(lambda: len(list(tmp_path.glob("begun*"))) == 2, "both spin")
    try:
        dumps = {dump.name: dump for dump in this_host().dump_stacks(timeout=30).get().meshes}
    finally:
        (tmp_path / "end").touch()
    spins.get(timeout=30)
    assert {"procs", "others", this_proc()._root.name} <= dumps.keys() and "stopped" not in dumps
    assert not any(dump.missing for dump in dumps.values())
    spinning = [s for s in dumps["procs"].stacks if any(function == "spin" for _, _, function in s.frames)]
    assert sorted(dict(point)["gpus"] for stack in spinning for point in stack.ranks) == [0, 1]
    assert "in test_a_host_tells_of_all_processes_on_it" in str(dumps[this_proc()._root.name])
    with pytest.raises(ValueError, match="positive, finite"):
        this_host().dump_stacks(timeout=0)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_that_makes_no_sense_is_an_error(one: ProcMesh, timeout: float) -> None:
    with pytest.raises(ValueError, match="positive, finite"):
        one.dump_stacks(timeout=timeout)
