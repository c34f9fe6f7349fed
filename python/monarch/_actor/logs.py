"""The output of processes: where it is kept, how it is shown, and the last of it after a death."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._native import Death, Runtime

# How many runs are kept, this one included.
RUNS_KEPT = 10


def set_up(runtime: Runtime) -> None:
    """Say where the output of the processes that this client will start is kept and shown."""
    import time

    run = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}"
    runtime.set_up_logs(directory(), run, RUNS_KEPT, sys.__stdout__ is not None, sys.__stderr__ is not None)


def directory() -> str | None:
    """The directory of the logs of all runs; None where no files are to be kept."""
    named = os.environ.get("MONARCH_LOG_DIR")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # so says the standard
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "monarch")


def options() -> tuple[bool, bool, float, bool, int]:
    """How the output of processes that are started now is treated."""
    return True, True, 0.1, False, 20


def last_words(death: Death) -> str:
    """What a process said last on its standard error, as lines below the sentence that tells its death."""
    if death.tail is None:
        return ""
    lines, file = death.tail
    where = f" (all of it is in {file})" if file else ""
    return "\n".join([f"its last lines on stderr{where}:", *(f"  {line}" for line in lines)])
