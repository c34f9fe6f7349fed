"""A client whose workers start processes of their own; for tests that end it in many ways.

    python program.py WORKERS

Prints `ready` when all workers have started theirs, then calls the workers until it is ended.
"""

import os
import subprocess
import sys
import time

from monarch._native import build_info
from monarch.actor import Actor, endpoint, this_host


class Parent(Actor):
    """Starts a program, a plain fork, and a daemon in a session of its own that forgets where it comes from."""

    def __init__(self) -> None:
        self.program = subprocess.Popen(["sleep", "1000"])
        self.fork = os.fork()
        if self.fork == 0:
            time.sleep(1000)
            os._exit(0)
        # Only a subreaper finds one that left the process group and its parent; plain POSIX has none.
        if build_info()["platform"] == "linux":
            subprocess.run(
                ["sh", "-c", "(sleep 1000 </dev/null >/dev/null 2>&1 &)"], check=True, start_new_session=True
            )

    @endpoint
    def step(self, number: int) -> int:
        return number


def main() -> None:
    procs = this_host().spawn_procs({"workers": int(sys.argv[1])})
    parents = procs.spawn("parents", Parent)
    parents.step.call(0).get()
    print("ready", flush=True)
    number = 0
    while os.getppid() == int(os.environ["TEST_PARENT"]):
        number += 1
        parents.step.call(number).get()
    sys.exit("the test is gone")


if __name__ == "__main__":
    main()
