"""The end of a program by a failure that nobody handled: at once, whatever its main thread is doing."""

from __future__ import annotations

import os
import signal
import sys
import threading

from monarch._actor import context
from monarch._actor.errors import SupervisionError
from monarch._actor.failure import UnhandledFailure
from monarch._actor.notebook import ipython, is_interactive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from monarch._actor.failure import MeshFailure

# Ignored where nobody handles it, and never sent by terminals, timers or job managers.
SIGNAL = signal.SIGURG

# How long the program may take to end by itself, its `finally` blocks and exit handlers included.
HARD_EXIT_AFTER_S = 10.0

_failure: MeshFailure | None = None
_raised = False  # in the main thread, whose end it is then


def install() -> None:
    """Make it possible to raise in the main thread; in another thread nothing can be prepared for that."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(SIGNAL) in (signal.SIG_DFL, None):
        signal.signal(SIGNAL, _raise)


def end_program(failure: MeshFailure) -> None:
    """Raise `UnhandledFailure` in the main thread, also while that blocks; end the process where that does not help."""
    global _failure
    if _failure is not None:
        return
    _failure = failure
    if signal.getsignal(SIGNAL) is _raise:
        signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)
    else:
        _interrupt()
    if not _lives_on():
        timer = threading.Timer(HARD_EXIT_AFTER_S, exit_now)
        timer.daemon = True
        timer.start()


def program_ends() -> bool:
    """Whether a failure ends the program already; further ones would only bury the first cause."""
    return _failure is not None and not _lives_on()


def came_too_late() -> bool:
    """Whether the program had come to its end before it could be told of the failure that ends it."""
    return _failure is not None and not _raised


def _lives_on() -> bool:
    """Whether somebody types in what this program runs, and goes on after a failure."""
    return ipython() is not None or is_interactive()


def _interrupt() -> None:
    """Without a handler of ours: interrupt the main thread as Ctrl-C does, and let its end be that of a failure."""
    global _raised
    _raised = True
    before = sys.excepthook

    def hook(cls: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not issubclass(cls, KeyboardInterrupt):
            before(cls, error, traceback)
        elif not is_interactive():
            raise SystemExit(1)  # which the interpreter takes from a hook; what failed has been printed

    sys.excepthook = hook
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _raise(number: int, frame: FrameType | None) -> None:
    global _failure, _raised
    failure, process = _failure, context._process
    if failure is None or process is None or process.ending:
        return
    if ipython() is not None:
        _failure = None  # the shell lives on, and may meet another failure
        if not _runs_cell(frame):
            process.unhandled = failure  # for the next wait of a cell
            return
    elif is_interactive():
        _failure = None
        if _runs_statement(frame):
            raise SupervisionError(
                f"interrupted by a failure that nobody handled:\n{failure.report()}", failure=failure
            )
        return
    if _runs_program(frame):
        _raised = True
        raise UnhandledFailure(failure)


def _runs_program(frame: FrameType | None) -> bool:
    """Whether the main thread is in the program, rather than at its end: printing what it raised, or in exit handlers.

    Nobody could catch an exception there, and it would garble what is printed.
    """
    if frame is None:
        return False
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name in ("<module>", "_run_module_as_main")


def _runs_statement(frame: FrameType | None) -> bool:
    """Whether the interactive interpreter runs what was entered, or the script before it, rather than its prompt.

    From Python 3.13 on the prompt is a program itself.
    """
    modules = []
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            modules.append(frame.f_globals.get("__name__"))
        if frame.f_code.co_filename.startswith(("<stdin>", "<python-input")):
            return True
        frame = frame.f_back
    return bool(modules) and not any(str(name).startswith("_pyrepl") for name in modules)


def _runs_cell(frame: FrameType | None) -> bool:
    """Whether IPython's main thread is in the code of a cell, rather than waiting for one."""
    while frame is not None:
        if frame.f_code.co_name in ("run_code", "run_ast_nodes") and "IPython" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def exit_now() -> None:
    """End the process with status 1, without exit handlers."""
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(1)
