"""The environment that torchrun gives each of its processes."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch.actor import Point


def torchrun_environment(rank: Point, master_addr: str, master_port: int, run_id: str) -> dict[str, str]:
    """What torchrun sets for the process at `rank`. The last dimension is that of the processes of one node."""
    world = rank.extent.nelements
    local_world = rank.extent.sizes[-1] if rank.extent.sizes else 1
    node, local = divmod(rank.rank, local_world)
    return {
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": str(master_port),
        "RANK": str(rank.rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(local_world),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(world // local_world),
        "ROLE_NAME": "rank",
        "ROLE_RANK": str(rank.rank),
        "ROLE_WORLD_SIZE": str(world),
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        # Nobody but rank 0 itself serves the store that the ranks meet at.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def torchrun_defaults(rank: Point) -> dict[str, str]:
    """What torchrun sets unless the user has."""
    local_world = rank.extent.sizes[-1] if rank.extent.sizes else 1
    defaults = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    if local_world > 1:
        defaults["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // local_world))
    return defaults
