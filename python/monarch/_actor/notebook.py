"""Whether this program is a notebook kernel."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """Whether a notebook kernel runs here: its event loop may block while a cell runs, and it outlives failures."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
