"""Switches of the actor API in this process. The settings of the system are in `monarch.config`."""

from __future__ import annotations

# Whether messages that an actor logs begin with `[actor=…]`.
prefix_python_logs_with_actor = True
