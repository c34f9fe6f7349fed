"""The fixtures of the actor API's tests, and actors that workers import by name."""

from __future__ import annotations

import sys
from pathlib import Path

# In this order: `conftest` is the one of the actor API.
sys.path.insert(0, str(Path(__file__).parents[1] / "actor"))
sys.path.append(str(Path(__file__).parent))

from conftest import (  # noqa: F401
    ctrl_c_is_heard,
    faults,
    no_process_outlives_the_session,
    no_unexpected_fault,
    run_program,
    spawn_procs,
)
