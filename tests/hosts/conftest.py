"""Hosts whose programs are started by the tests, and actors that they import by name."""

from __future__ import annotations

import sys
from pathlib import Path

# In this order: `conftest` is the one of the actor API.
sys.path.insert(0, str(Path(__file__).parents[1] / "actor"))
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "payload")]

from conftest import faults, no_unexpected_fault  # noqa: F401
from host_fixtures import attach, own_cluster_key, start_host  # noqa: F401
