"""Programs that somebody types: notebook kernels and terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# In this order: `conftest` is the one of the actor API.
sys.path.insert(0, str(Path(__file__).parents[1] / "actor"))
sys.path.append(str(Path(__file__).parent))

from conftest import assert_gone, ctrl_c_is_heard, marked_environment, marked_processes  # noqa: F401


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """The environment of what a test types into; nothing that has it may be left when the test is over."""
    environment, mark = marked_environment()
    environment.pop("PYTEST_CURRENT_TEST", None)  # else a kernel leaves what is printed to pytest
    environment["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).parent}"
    yield {**environment, "TERM": "dumb", "NO_COLOR": "1", "PYTHON_BASIC_REPL": "1"}
    assert_gone(lambda: marked_processes(mark), "after the end of the session")
