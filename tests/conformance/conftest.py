"""The fixtures of the actor API's tests, and actors that workers import by name."""

from __future__ import annotations

import sys
from pathlib import Path

# In this order: `conftest` is the one of the actor API.
sys.path.insert(0, str(Path(__file__).parents[1] / "actor"))
sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "hosts"))

from conftest import (  # noqa: F401
    faults,
    grid,
    no_process_outlives_the_session,
    no_unexpected_fault,
    one,
    run_program,
    spawn_procs,
)
from host_fixtures import attach, own_cluster_key, start_host  # noqa: F401
