"""A client that ends its workers with all the patience in the world; their clean-up does not end.

    python hurried.py TOLD

Once they are told to end, the file TOLD is there, and the program waits for them.
"""

import sys
import threading
from pathlib import Path

from monarch._actor.context import process
from monarch.actor import Actor, endpoint, this_host
from monarch.config import configure


class Worker(Actor):
    def __init__(self, told: str) -> None:
        self.told = told

    @endpoint
    def hello(self) -> None:
        pass

    def __cleanup__(self, exc: Exception | None) -> None:
        Path(self.told).touch()
        threading.Event().wait()


def main() -> None:
    configure(cleanup_timeout="1h")
    workers = this_host().spawn_procs({"workers": 2}).spawn("workers", Worker, sys.argv[1])
    workers.hello.call().get()
    print("ready", flush=True)
    try:
        process().runtime.shutdown(3600.0)
    except KeyboardInterrupt:
        print("hurried", flush=True)


if __name__ == "__main__":
    main()
