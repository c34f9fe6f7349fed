"""Whether somebody types in what this program runs: a notebook kernel, IPython, or the interactive interpreter."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def ipython() -> Any:
    """The IPython shell that runs here, of a notebook kernel or in a terminal; None without one."""
    # Not there while another thread imports the module, as a kernel has done long before.
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython() if get_ipython is not None else None


def in_notebook() -> bool:
    """Whether a notebook kernel runs here: its event loop may block while a cell runs, and it outlives failures."""
    return getattr(ipython(), "kernel", None) is not None


def is_interactive() -> bool:
    """Whether this is the interpreter with a prompt, or a script before it (`python -i`): it outlives failures."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)
