"""The fixtures of the actor API's tests, and actors that workers import by name."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "actor"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from conftest import faults, no_unexpected_fault, spawn_procs  # noqa: E402, F401
