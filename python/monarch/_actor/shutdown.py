"""`shutdown_context`: the end of the client before the end of the program."""

from __future__ import annotations

import threading

from monarch._actor import context
from monarch._actor.future import Future
from monarch._actor.promise import Promise
from monarch._actor.shape import Extent
from monarch._actor.thread_context import start_service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.local.process import Process

# How long actors and processes may take, unless another limit is given.
HOST_TIMEOUT_S = 10.0

_lock = threading.Lock()
_ending: Future[None] | None = None


def shutdown_context(host_timeout: float | None = None) -> Future[None]:
    """End the client and everything that it started on this host: actors run `__cleanup__`, processes end.

    Begins at once; further calls return the same future. A program that has not used the runtime stays as it is. What
    still lives after `host_timeout` seconds (10) is killed. There is no second client: spawns raise `RuntimeError`.
    Raises `ValueError` for a limit that makes no sense, `RuntimeError` in an actor's process, which is not the client.
    """
    if host_timeout is not None and not 0 <= host_timeout < float("inf"):
        raise ValueError(f"host_timeout is {host_timeout}: it has to be a finite number of seconds, at least 0")
    process = context._process
    if process is None:
        return Future._now(lambda subject: None, _Shutdown())
    if process.root is None:
        raise RuntimeError("shutdown_context: this is the process of an actor; only the program shuts its client down")
    global _ending
    with _lock:
        if _ending is None:
            _ending = _begin(process, HOST_TIMEOUT_S if host_timeout is None else host_timeout)
        return _ending


def _begin(process: Process, host_timeout: float) -> Future[None]:
    from monarch._actor.client import end_client

    promise: Promise[None] = Promise(lambda: None)

    def run() -> None:
        try:
            end_client(process, "the program shut its client down", host_timeout)
        except Exception as error:
            promise.fail(error)
        else:
            promise.settle(lambda: None)

    start_service(run, "monarch-shutdown")
    return promise.future(_Shutdown())


class _Shutdown:
    """What the future waits for."""

    label = "shutdown_context"
    extent = Extent((), ())
    root = None

    def is_answered_here(self, replies: object) -> bool:
        return False
