"""The first program: processes, an actor in each, one call to all of them.

python examples/trainers.py [PROCESSES]
"""

import os
import sys

from monarch.actor import Actor, current_rank, endpoint, this_host


class Trainer(Actor):
    """One of many that train together."""

    @endpoint
    def train(self, step: int) -> str:
        """Do one step; says who did it."""
        return f"step {step} done by rank {current_rank().rank} in process {os.getpid()}"


def main(processes: int) -> None:
    training_procs = this_host().spawn_procs({"gpus": processes})
    trainers = training_procs.spawn("trainers", Trainer)
    for point, answer in trainers.train.call(step=0).get().items():
        print(f"{point}: {answer}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
