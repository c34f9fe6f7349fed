"""What becomes of an actor that goes on for too long after it was told to end."""

from __future__ import annotations

import threading

from monarch._actor import settings
from monarch._actor.timers import timers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.local.actor import LocalActor
    from monarch._actor.timers import Timer

# How long the interruption may take to have an effect. Code that is blocked, as in `time.sleep`, does not see it.
GIVE_UP_AFTER_S = 1.0


class Interrupted(BaseException):
    """Raised in the code of an actor that goes on for too long after it was told to end."""


class Overtime:
    """Ends one thing that an actor does: by an exception in its thread, and if that does not help, without it."""

    def __init__(self, actor: LocalActor) -> None:
        self._actor = actor
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._interrupted = False

    def begins(self, setting: str = "stop_grace_period", more_s: float = 0.0) -> None:
        """From now on the actor has as long as this setting says for what it does, unless that is measured already."""
        with self._lock:
            if self._timer is None:
                self._timer = timers().after(settings.seconds(setting) + more_s, self._interrupt)

    def ends(self) -> None:
        """The actor did it. To be called on its thread, which may be interrupted just now."""
        while True:
            try:
                self._ends()
                return
            except Interrupted:
                continue

    def _ends(self) -> None:
        with self._lock:
            timer, self._timer = self._timer, None
            interrupted, self._interrupted = self._interrupted, False
            if timer is not None:
                timer.cancel()
            if interrupted:
                _raise_in(self._actor.thread, None)

    def _interrupt(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer = timers().after(GIVE_UP_AFTER_S, self._give_up)
                self._interrupted = True
                self._actor.interrupt()

    def _give_up(self) -> None:
        with self._lock:
            goes_on = self._timer is not None
        if goes_on and not self._actor.ended.is_set():
            self._actor.process.give_up(self._actor)


def cleanup_took_too_long() -> TimeoutError:
    """What a stop is told of a `__cleanup__` that was interrupted."""
    return TimeoutError(f"__cleanup__ did not end within {settings.seconds('cleanup_timeout'):g} s")


def interrupt(thread: threading.Thread) -> None:
    """Raise `Interrupted` in a thread, at its next bytecode."""
    _raise_in(thread, Interrupted)


def _raise_in(thread: threading.Thread, error: type[BaseException] | None) -> None:
    """Raise this in a thread; with None nothing that was to be raised and was not yet."""
    if thread.ident is not None:
        import ctypes

        what = None if error is None else ctypes.py_object(error)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), what)
