"""The notebooks in `examples`, executed by a real kernel: what they show is what they show when they are read."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from notebooks import execute

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.ipynb")))
def test_a_notebook_shows_what_it_says(name: str, tmp_path: Path, environment: dict[str, str]) -> None:
    written = nbformat.read(EXAMPLES / name, as_version=4)
    executed = copy.deepcopy(written)
    # On a slow machine, too, equal lines of several ranks are one, and nothing is shown of how far a start has come.
    patient = {"MONARCH_LOG_FOLD_WINDOW": "60s", "MONARCH_SHOW_PROGRESS": "0"}
    execute(executed, tmp_path, {**environment, **patient})
    for before, after in zip(written.cells, executed.cells, strict=True):
        # What is marked so has process ids in it, or depends on how fast the machine is.
        if before.cell_type == "code" and "varies" not in before.metadata.get("tags", []):
            assert shown(after) == shown(before), before.source


def shown(cell: Any) -> list[str]:
    """What is printed below a cell, and its value."""
    return sorted(
        output.text if output.output_type == "stream" else output.data["text/plain"] for output in cell.outputs
    )


def test_there_are_notebooks() -> None:
    assert {"first_steps.ipynb", "failures.ipynb"} <= {path.name for path in EXAMPLES.glob("*.ipynb")}
