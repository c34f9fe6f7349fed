"""Programs that are written for torchrun: each process of a mesh is one rank of `torch.distributed`.

`setup_torch_elastic_env(procs)` gives the processes torchrun's environment, so that an unchanged program body runs
inside an actor. `SPMDActor` runs a whole script on a mesh.
"""

from monarch.spmd.script import SPMDActor
from monarch.spmd.setup import setup_torch_elastic_env, setup_torch_elastic_env_async

__all__ = ["SPMDActor", "setup_torch_elastic_env", "setup_torch_elastic_env_async"]
