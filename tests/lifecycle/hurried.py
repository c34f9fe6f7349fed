"""A client that ends its workers with all the patience in the world; one of them can't even hear of it.

    python hurried.py TOLD

Once the other one is told to end, the file TOLD is there, and the program waits for the one that does not hear.
"""

import os
import signal
import sys
from pathlib import Path

from monarch._actor.context import process
from monarch.actor import Actor, endpoint, this_host


class Worker(Actor):
    def __init__(self, told: str) -> None:
        self.told = told

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    def __cleanup__(self, exc: Exception | None) -> None:
        Path(self.told).touch()


def main() -> None:
    workers = this_host().spawn_procs({"workers": 2}).spawn("workers", Worker, sys.argv[1])
    os.kill(workers.slice(workers=1).pid.call_one().get(), signal.SIGSTOP)
    workers.slice(workers=0).pid.call_one().get()
    print("ready", flush=True)
    try:
        process().runtime.shutdown(3600.0)
    except KeyboardInterrupt:
        print("hurried", flush=True)


if __name__ == "__main__":
    main()
