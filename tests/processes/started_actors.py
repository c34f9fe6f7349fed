"""What a worker is when it has started, as seen from within."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import random
import signal
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from monarch.actor import Actor, current_rank, endpoint, this_host


def status(name: str) -> str:
    with open("/proc/self/status") as lines:
        return next(line.split(":")[1].strip() for line in lines if line.startswith(f"{name}:"))


def shown(name: str) -> list[str]:
    with open(f"/proc/self/{name}", "rb") as file:
        return [os.fsdecode(part) for part in file.read().split(b"\0") if part]


def descriptors() -> dict[str, str]:
    """What the descriptors that programs know by number are."""
    return {number: os.readlink(f"/proc/self/fd/{number}").partition(":")[0] for number in "03"}


class Start(Actor):
    @endpoint
    def look(self) -> dict[str, Any]:
        """All that a program can see of how its process was started, but for what differs from process to process."""
        environment = {name: value for name, value in os.environ.items() if name != "MONARCH_WORKER"}
        beginning = dict(entry.split("=", 1) for entry in shown("environ"))
        main = sys.modules["__main__"]
        return {
            "affinity": sorted(os.sched_getaffinity(0)),
            "argv": sys.argv,
            "command line": shown("cmdline"),
            "descriptors": descriptors(),
            "directory": os.getcwd(),
            "environment": environment,
            "environment at its beginning": {name: beginning.get(name) for name in environment},
            "flags": str(sys.flags),
            "garbage collection": gc.isenabled(),
            "handlers": {
                number.name: str(signal.getsignal(number))
                for number in signal.valid_signals()
                if isinstance(number, signal.Signals) and number != signal.SIGTERM
            },
            "ignored signals": status("SigIgn"),
            "blocked signals": status("SigBlk"),
            "leads a session": os.getsid(0) == os.getpid() == os.getpgid(0),
            "main module": [name for name in vars(main) if not name.startswith("__")],
            "original argv": sys.orig_argv,
            "path": sys.path,
            "prefix": sys.prefix,
            "standard input": sys.stdin.read(),
            "threads": int(status("Threads")),
            "time zone": time.tzname,
            "umask": status("Umask"),
        }

    @endpoint
    def draw(self) -> list[str]:
        """Numbers that no other worker draws."""
        drawn = [random.random(), uuid.uuid4()]
        if "torch" in sys.modules:
            import numpy
            import torch

            drawn += [numpy.random.rand(), torch.rand(1)]
        return [str(number) for number in drawn]

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def parent(self) -> int:
        return os.getppid()

    @endpoint
    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    @endpoint
    def loaded(self, module: str) -> bool:
        return module in sys.modules

    @endpoint
    def torch_threads(self) -> int:
        import torch

        return torch.get_num_threads()

    @endpoint
    def end(self, status: int) -> None:
        os._exit(status)

    @endpoint
    def end_later(self, directory: str) -> None:
        """Leave behind what the end of a process waits for, calls, and writes out."""

        def outlive_main() -> None:
            threading.main_thread().join()
            Path(directory, "thread").write_text("ended")

        threading.Thread(target=outlive_main, daemon=False).start()
        atexit.register(Path(directory, "handler").write_text, "ran")
        library = ctypes.CDLL(None)
        library.fopen.restype = ctypes.c_void_p
        file = library.fopen(os.path.join(directory, "library").encode(), b"w")
        library.fputs(b"in a buffer", ctypes.c_void_p(file))

    @endpoint
    def wait_for_ever(self) -> None:
        threading.Event().wait()

    @endpoint
    def own(self) -> list[int]:
        """The parents of workers that this worker starts."""
        own = this_host().spawn_procs({"rank": 2}).spawn("own", Start)
        return [parent for _, parent in own.parent.call().get().items()]

    @endpoint
    def rank(self) -> int:
        return current_rank().rank
