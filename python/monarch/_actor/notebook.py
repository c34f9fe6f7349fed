"""Whether somebody types in what this program runs: a notebook kernel, or the interactive interpreter."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """Whether a notebook kernel runs here: its event loop may block while a cell runs, and it outlives failures."""
    # Not there while another thread imports the module, as a kernel has done long before.
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython is not None and getattr(get_ipython(), "kernel", None) is not None


def is_interactive() -> bool:
    """Whether this is the interpreter with a prompt, or a script before it (`python -i`): it outlives failures."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)
