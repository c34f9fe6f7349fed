"""The output of processes: where it is kept, how it is shown, and the last of it after a death."""

from __future__ import annotations

import os
import sys

from monarch._actor import settings
from monarch._actor.notebook import ipython

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch._native import Death, Runtime

# How many runs are kept, this one included.
RUNS_KEPT = 10

_LONGEST_WINDOW_S = 24 * 60 * 60
_HIGHEST_LEVEL = 255


_run_name = ""


def set_up(runtime: Runtime) -> None:
    """Say where the output of the processes that this client will start is kept and shown."""
    runtime.set_up_logs(directory(settings.value), run_name(), RUNS_KEPT, *_streams(runtime))


def _streams(runtime: Runtime) -> tuple[int | None, int | None]:
    """The descriptors where standard output and standard error of processes are shown; None for one that is closed."""
    if ipython() is None:
        return (None if sys.__stdout__ is None else 1), (None if sys.__stderr__ is None else 2)
    from monarch._actor import cell_output

    return cell_output.set_up(runtime)


def run_name() -> str:
    """What the directory of this run is called, here and on other hosts."""
    global _run_name
    if not _run_name:
        import time

        _run_name = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}"
    return _run_name


def directory(value: Callable[[str], Any]) -> str | None:
    """The directory of the logs of all runs; None where no files are to be kept. `value` gives that of a key."""
    if not value("enable_file_capture"):
        return None
    named: str = value("log_dir")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # so says the standard
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "monarch")


def options() -> tuple[bool, bool, float, int]:
    """How the output of processes that are started now is treated."""
    shown, ranks = settings.value("enable_log_forwarding"), settings.value("prefix_with_rank")
    return shown, ranks, settings.seconds("log_fold_window"), settings.value("tail_log_lines")


def check_options(shown: bool | None, window_s: float | None, level: int) -> None:
    """Refuse wrong arguments of `ProcMesh.logging_option`."""
    if shown is not None and not isinstance(shown, bool):
        raise TypeError(f"stream_to_client is {shown!r}: it has to be a bool, or None to leave it as it is")
    if window_s is not None and (isinstance(window_s, bool) or not isinstance(window_s, (int, float))):
        raise TypeError(f"aggregate_window_sec is {window_s!r}: it has to be a number of seconds or None")
    if window_s is not None and not 0 <= window_s <= _LONGEST_WINDOW_S:
        raise ValueError(f"aggregate_window_sec is {window_s!r}: it has to be from 0 to {_LONGEST_WINDOW_S}")
    if window_s is not None and shown is False:
        raise RuntimeError("aggregate_window_sec has no meaning with stream_to_client=False: nothing is shown")
    if isinstance(level, bool) or not isinstance(level, int):
        raise TypeError(f"level is {level!r}: it has to be an int such as logging.INFO")
    if not 0 <= level <= _HIGHEST_LEVEL:
        raise ValueError(f"level is {level}: it has to be from 0 to {_HIGHEST_LEVEL}")


def last_words(death: Death) -> str:
    """What a process said last on its standard error, as lines below the sentence that tells its death."""
    if death.tail is None:
        return ""
    lines, file = death.tail
    there = f" on {death.host}" if death.host != os.uname().nodename else ""
    where = f" (all of it is in {file}{there})" if file else ""
    return "\n".join([f"its last lines on stderr{where}:", *(f"  {line}" for line in lines)])
