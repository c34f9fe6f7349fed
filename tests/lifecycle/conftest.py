"""What all of these tests need."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """Where a shell has started the tests in the background, they and the programs that they start would ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
