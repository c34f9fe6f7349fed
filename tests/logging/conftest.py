"""The fixtures of the actor API's tests, and programs whose output is looked at."""

from __future__ import annotations

import sys
from pathlib import Path

# In this order: `conftest` is the one of the actor API.
sys.path.insert(0, str(Path(__file__).parents[1] / "actor"))
sys.path.append(str(Path(__file__).parent))

from conftest import run_program  # noqa: F401
