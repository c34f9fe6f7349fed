"""`Root`: the program itself as an owner: the last stop of a failure."""

from __future__ import annotations

import threading

from monarch._actor.failure import MeshFailure, UnhandledFailure
from monarch._actor.fault_hook import UnhandledFaultHookException
from monarch._actor.local.owner import Owner
from monarch._actor.thread_context import start_service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.local.process import Process


class Root(Owner):
    """Calls `monarch.actor.unhandled_fault_hook` for each failure, one at a time, never on the main thread."""

    def __init__(self, process: Process, actor: bytes) -> None:
        super().__init__(process, actor)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._told = threading.Event()
        self._at_rest = threading.Condition(self._lock)
        self._telling = False

    def told_of_failure(self) -> None:
        with self._lock:
            self._telling = True
            if self._thread is None:
                self._thread = start_service(self._run, "monarch-root")
        self._told.set()

    def _run(self) -> None:
        from monarch._actor.local import fatal

        while True:
            self._told.wait()
            self._told.clear()
            while (failure := self.failures.take()) is not None:
                if isinstance(failure, MeshFailure) and not self.process.ending and not fatal.program_ends():
                    _call_hook(failure)
            with self._lock:
                self._telling = bool(self.failures) or self._told.is_set()
                self._at_rest.notify_all()

    def wait_until_told(self, timeout_s: float) -> None:
        """Wait until the program has been told of all failures that are known here."""
        with self._lock:
            self._at_rest.wait_for(lambda: not self._telling, timeout_s)


def _call_hook(failure: MeshFailure) -> None:
    from monarch import actor
    from monarch._actor.local.fatal import end_program

    try:
        actor.unhandled_fault_hook(failure)
    except UnhandledFailure as error:
        end_program(error.failure)
    except BaseException as error:
        import traceback

        fatal = UnhandledFaultHookException("unhandled_fault_hook raised, which makes the failure fatal")
        fatal.__cause__ = error
        traceback.print_exception(type(fatal), fatal, None)
        end_program(failure)
