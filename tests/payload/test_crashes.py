"""Whoever ends with leases outstanding leaves nothing behind, and lets the memory of the others not grow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import assert_gone, eventually, marked_environment, marked_processes
from monarch.actor import MeshFailure, ProcMesh, SupervisionError
from payload_actors import LARGE_BYTES, Keeper, forget_other_tests, memory_mb, slab_bytes, slots_taken

Spawn = Callable[..., ProcMesh]
WITHIN_S = 60.0
PROGRAM = Path(__file__).with_name("lending_program.py")
SIZES = (100_000, 700_000, LARGE_BYTES)

# What allocators and the interpreter take in a few rounds, against the tens of megabytes that the rounds lend.
SLACK_MB = 15
ROUNDS = 8


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_client_that_ends_with_leases_leaves_nothing(how: signal.Signals, tmp_path: Path) -> None:
    before = shared_memory()
    environment, mark = marked_environment()
    client = subprocess.Popen([sys.executable, str(PROGRAM)], env=environment, cwd=tmp_path, stdout=subprocess.PIPE)
    with client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        client.send_signal(how)
        client.communicate(timeout=WITHIN_S)
    assert_gone(lambda: marked_processes(mark), "after the client's end")
    assert shared_memory() <= before


@pytest.fixture(autouse=True)
def only_this_test_lends() -> None:
    forget_other_tests()


def shared_memory() -> set[str]:
    """Names, which memory of ours has none of."""
    folder = Path("/dev/shm")
    return {path.name for path in folder.iterdir() if "monarch" in path.name} if folder.exists() else set()


def test_receivers_that_are_killed_again_and_again_cost_the_sender_no_memory(
    spawn_procs: Spawn, faults: list[MeshFailure]
) -> None:
    procs = spawn_procs(per_host={"gpus": 2})
    keepers: Any = procs.spawn("keepers", Keeper)

    def kill_one_that_has_leases() -> None:
        for size in SIZES:
            keepers.keep.call(np.ones(size, np.uint8)).get(timeout=WITHIN_S)
            keepers.slice(gpus=1).keep.call_one(np.ones(size, np.uint8)).get(timeout=WITHIN_S)
        kill(keepers, procs)
        keepers.slice(gpus=0).drop.call_one().get(timeout=WITHIN_S)
        eventually(lambda: slots_taken() == 0, "the end of all leases")

    assert_memory_stays(kill_one_that_has_leases)
    # Slabs of slots that nobody uses again are gone, others are kept for a while.
    eventually(lambda: slab_bytes() < 60 << 20, "the end of the slabs")


def test_senders_that_are_killed_again_and_again_cost_the_receiver_no_memory(
    spawn_procs: Spawn, faults: list[MeshFailure]
) -> None:
    procs = spawn_procs(per_host={"gpus": 2})
    keepers: Any = procs.spawn("keepers", Keeper)

    def outlive_one() -> None:
        one = keepers.slice(gpus=1)
        received = [one.echo.call_one(np.ones(size, np.uint8)).get(timeout=WITHIN_S) for size in SIZES]
        kill(keepers, procs)
        assert [int(array.sum()) for array in received] == list(SIZES)

    assert_memory_stays(outlive_one)
    eventually(lambda: slots_taken() == 0, "the end of all leases")


def assert_memory_stays(round_of: Callable[[], None]) -> None:
    round_of()
    before = memory_mb()
    for _ in range(ROUNDS):
        round_of()
    eventually(lambda: memory_mb() < before + SLACK_MB, "the memory of dead processes goes back", within_s=60)


def kill(keepers: Any, procs: ProcMesh) -> None:
    """End one process and put a new one into its place."""
    one = keepers.slice(gpus=1)
    os.kill(one.pid.call_one().get(timeout=WITHIN_S), signal.SIGKILL)
    with pytest.raises(SupervisionError):
        while True:
            one.pid.call_one().get(timeout=WITHIN_S)
    procs.respawn().get(timeout=WITHIN_S)
    keepers.respawn([1]).get(timeout=WITHIN_S)
