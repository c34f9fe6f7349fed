"""Programs for torchrun on four processes, with gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from monarch.actor import ProcMesh
from monarch.spmd import SPMDActor, setup_torch_elastic_env
from spmd_actors import Environment, Trainer

# Importing torch in four processes can take a minute on a busy machine.
pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples"
RESULT = {"sum_of_ranks": 6.0, "difference": pytest.approx(0.0, abs=1e-12)}


@pytest.fixture(scope="module")
def ranks(grid: ProcMesh) -> Any:
    return grid.spawn("ranks", SPMDActor)


def run(ranks: Any, *script_args: str) -> list[bool]:
    host, port = ranks[0].get_host_port.call_one().get(timeout=30)
    done = ranks.main.options(fail_fast=True).call(host, port, list(script_args))
    return list(done.get(timeout=240).values())


def test_an_unchanged_program_body_runs_in_actors(grid: ProcMesh) -> None:
    setup_torch_elastic_env(grid)
    trainers = grid.spawn("trainers", Trainer)
    assert list(trainers.train.call().get(timeout=240).values()) == [RESULT] * 4


def test_a_whole_script_runs_on_a_mesh(ranks: Any, tmp_path: Path) -> None:
    assert run(ranks, str(HERE / "training.py"), "--out", str(tmp_path)) == [True] * 4
    assert [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(4)] == [RESULT] * 4


def test_a_module_runs_as_a_script(ranks: Any, tmp_path: Path) -> None:
    assert run(ranks, "-m", "training", "--out", str(tmp_path)) == [True] * 4
    assert len(list(tmp_path.iterdir())) == 4


def test_a_rank_that_fails_is_the_error_and_nobody_waits_for_it(ranks: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="out of data"):
        run(ranks, str(HERE / "failing.py"))
    # The others were told, and serve again.
    assert run(ranks, str(HERE / "training.py"), "--out", str(tmp_path)) == [True] * 4


def test_the_example_trains(run_program: Any) -> None:
    done = run_program(str(EXAMPLES / "spmd_training.py"), "2", timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    first, last = (float(line.split()[-1]) for line in done.stdout.splitlines())
    assert last < first


OF_A_TERMINAL = {"COLUMNS", "LINES"}
OF_THE_LAUNCHER = {"TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE", "OMP_NUM_THREADS"} | OF_A_TERMINAL
OF_THE_RUN = {"MASTER_ADDR", "MASTER_PORT", "ROLE_NAME", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"}


@pytest.mark.long
def test_the_environment_is_that_of_torchrun(spawn_procs: Any, tmp_path: Path) -> None:
    script = tmp_path / "environment.py"
    script.write_text("import json, os, sys; print(json.dumps(dict(os.environ)))")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    done = subprocess.run([*torchrun, str(script)], capture_output=True, text=True, timeout=240, check=True)
    theirs = {name: value for name, value in json.loads(done.stdout).items() if os.environ.get(name) != value}
    procs = spawn_procs(per_host={"gpus": 1})
    setup_torch_elastic_env(procs)
    ours = procs.spawn("environment", Environment).read.call_one().get(timeout=30)
    assert theirs.keys() - OF_THE_LAUNCHER <= ours.keys()
    values = theirs.keys() - OF_THE_LAUNCHER - OF_THE_RUN
    assert {name: ours[name] for name in values} == {name: theirs[name] for name in values}
