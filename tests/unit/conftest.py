"""Settings for all unit tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says more about a busy machine than about the code.
settings.register_profile("unit", deadline=None)
settings.load_profile("unit")
