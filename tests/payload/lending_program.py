"""A client that has leases on slots of its workers, whose workers have leases on its own and on each other's.

Prints `ready` when all has been lent, and waits until it is ended.
"""

import signal

import numpy as np
from monarch.actor import this_host
from payload_actors import LARGE_BYTES, Keeper

procs = this_host().spawn_procs({"gpus": 2})
keepers = procs.spawn("keepers", Keeper)
one, other = keepers.slice(gpus=0), keepers.slice(gpus=1)
keepers.keep.call(np.ones(LARGE_BYTES)).get()
one.keep.call_one(bytearray(LARGE_BYTES)).get()
one.pass_on.call_one(other, np.ones(100_000, np.uint8)).get()
shown = [values for _, values in keepers.show.call(0).get().items()]
print("ready", flush=True)
signal.pause()
