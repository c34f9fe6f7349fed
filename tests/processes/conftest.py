"""Programs of their own, for what a whole program decides: how its workers start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# Where the keeper writes how it starts workers, and why.
EXPLAIN = {"MONARCH_EXPLAIN_STARTS": "1"}


class Done(NamedTuple):
    """What a program printed as JSON, and what its keeper said of the workers."""

    result: Any
    starts: list[str]


RunProgram = Callable[..., Done]


@pytest.fixture
def run_program(tmp_path: Path) -> RunProgram:
    """Run a program in a directory of its own, which holds the actors that it spawns; it prints one JSON value."""
    actors = Path(__file__).with_name("started_actors.py")
    (tmp_path / "started_actors.py").write_text(actors.read_text())

    def run(body: str, **variables: str) -> Done:
        program = tmp_path / "program.py"
        program.write_text(HEAD + textwrap.dedent(body))
        done = subprocess.run(
            [sys.executable, str(program), "an argument"],
            cwd=tmp_path,
            env={**os.environ, **EXPLAIN, **variables},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        starts = [line.partition(": ")[2] for line in done.stderr.splitlines() if line.startswith("monarch keeper")]
        return Done(json.loads(done.stdout), starts)

    return run


HEAD = """
import json, os, signal, sys
from started_actors import Start
from monarch.actor import this_host

def start(count=1):
    return this_host().spawn_procs({"rank": count}).spawn("start", Start)

def values(mesh):
    return [value for _, value in mesh.items()]
"""
