"""`monarch worker`: the program of a host."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time

from monarch._actor.hosts.worker_loop import listen, serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


def run(
    address: str,
    key_file: str | None,
    *,
    name: str | None,
    idle_timeout_s: float | None,
    with_process: int | None,
    job_directory: str | None,
    quiet: bool,
) -> int:
    """Be a host until a client shuts it down, or SIGTERM or SIGINT comes; returns the exit status.

    It ends `with_process`, unless the job's directory says that the job is kept, and leaves nothing of that directory.
    """
    signal.signal(signal.SIGTERM, _end)
    try:
        if with_process is not None:
            threading.Thread(target=_end_with, args=(with_process, job_directory), daemon=True).start()
        listener = listen(address, key_file)
        if not quiet:
            print(f"listening at {listener.address}", flush=True)
        serve(listener, name, idle_timeout_s, _silent if quiet else _report)
    finally:
        if job_directory is not None:
            _leave(job_directory, address.removeprefix("ipc://"))
    return 0


def _report(news: str) -> None:
    print(f"monarch: {news}", file=sys.stderr, flush=True)


def _silent(news: str) -> None:
    pass


def _leave(job_directory: str, socket: str) -> None:
    """Remove this worker's socket, and the directory of the job if it was the last."""
    from contextlib import suppress

    with suppress(OSError):
        os.unlink(socket)
    with suppress(OSError):
        if os.listdir(job_directory) in ([], [KEEP]):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(job_directory, KEEP))
            os.rmdir(job_directory)


# A file of this name in a job's directory: its workers outlive the program that made them.
KEEP = "keep"


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # what follows is bounded in time
    sys.exit(128 + number)


def _end_with(pid: int, job_directory: str | None) -> None:
    """End this process in order when that one has ended."""
    _wait_for_end(pid)
    if job_directory is not None and os.path.exists(os.path.join(job_directory, KEEP)):
        return
    os.kill(os.getpid(), signal.SIGTERM)


def _wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # a system that has no such thing, or denies it
        while _lives(pid):
            time.sleep(_POLL_S)
        return
    select.select([descriptor], [], [])
    os.close(descriptor)


_POLL_S = 0.5


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
