"""A server has parameters; workers take them and add their gradients, without the server's code.

python examples/parameter_server.py [WORKERS]
"""

import array
import sys

from monarch.actor import Actor, current_rank, endpoint, this_host
from monarch.rdma import RDMAAction, RDMABuffer

PARAMETERS = 1 << 16
STEPS = 5


class Server(Actor):
    """Owns the parameters, and a place for the gradient of each worker."""

    def __init__(self, workers: int) -> None:
        self.parameters = array.array("d", bytes(8 * PARAMETERS))
        self.gradients = [array.array("d", bytes(8 * PARAMETERS)) for _ in range(workers)]

    @endpoint
    def handles(self) -> tuple[RDMABuffer, list[RDMABuffer]]:
        """The parameters, to read only, and the places that workers write to."""
        return RDMABuffer(self.parameters, read_only=True), [RDMABuffer(place) for place in self.gradients]

    @endpoint
    def update(self) -> float:
        """Add what the workers wrote; the first parameter."""
        for number in range(PARAMETERS):
            self.parameters[number] += sum(gradient[number] for gradient in self.gradients)
        return self.parameters[0]


class Worker(Actor):
    """Takes the parameters, and gives a gradient."""

    def __init__(self, parameters: RDMABuffer, places: list[RDMABuffer]) -> None:
        self.local = array.array("d", bytes(8 * PARAMETERS))
        self.gradient = array.array("d", bytes(8 * PARAMETERS))
        self.pull = RDMAAction().read_remote(self.local, parameters)
        self.push = RDMAAction().write_remote(places[current_rank().rank], self.gradient)

    @endpoint
    async def step(self) -> float:
        """One step; the parameter that it saw."""
        await self.pull.submit()
        share = float(current_rank().rank + 1)
        self.gradient[:] = array.array("d", [share]) * PARAMETERS
        await self.push.submit()
        return self.local[-1]


def main(workers: int) -> None:
    server = this_host().spawn_procs(name="server").spawn("server", Server, workers)
    parameters, places = server.handles.call_one().get()
    procs = this_host().spawn_procs({"workers": workers}, name="workers")
    trainers = procs.spawn("trainers", Worker, parameters, places)
    added = workers * (workers + 1) / 2
    for step in range(STEPS):
        seen = list(trainers.step.call().get().values())
        value = server.update.call_one().get()
        if seen != [step * added] * workers or value != (step + 1) * added:
            raise AssertionError(f"step {step}: workers saw {seen}, and the server has {value}")
        print(f"step {step}: the workers saw {seen[0]}, the server has {value}")
    print(f"{workers} workers moved {2 * STEPS * workers * parameters.size() >> 20} MiB past the server's code")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
