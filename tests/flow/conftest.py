"""The fixtures of the actor API's tests, small limits, and actors that workers import by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from monarch.config import configured

# In this order: `conftest` is the one of the actor API.
sys.path.insert(0, str(Path(__file__).parents[1] / "actor"))
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "hosts")]

from conftest import (  # noqa: F401
    faults,
    no_process_outlives_the_session,
    no_unexpected_fault,
    spawn_procs,
)
from flowing_actors import HARD_LIMIT, WINDOW
from host_fixtures import attach, own_cluster_key, start_host  # noqa: F401


@pytest.fixture(autouse=True)
def small_window() -> Iterator[None]:
    with configured(send_window_bytes=WINDOW, send_hard_limit_bytes=HARD_LIMIT):
        yield
