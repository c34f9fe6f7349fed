"""Whether somebody types in what this program runs: a notebook kernel, or the interactive interpreter."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """Whether a notebook kernel runs here: its event loop may block while a cell runs, and it outlives failures."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def is_interactive() -> bool:
    """Whether this is the interpreter with a prompt, or a script before it (`python -i`): it outlives failures."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)
