"""`setup_torch_elastic_env`: torchrun's environment for the processes of a mesh."""

from __future__ import annotations

from monarch.actor import ProcMesh
from monarch.spmd.script import SPMDActor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch.tools.network import AddrType


def setup_torch_elastic_env(
    proc_mesh: ProcMesh,
    master_addr: str | None = None,
    master_port: int | None = None,
    use_ipaddr: AddrType | None = None,
) -> None:
    """Give each process of the mesh the environment that torchrun would give it, so that it is a rank.

    Ranks are in the order of the mesh; its last dimension counts the processes of a node. Afterwards
    `torch.distributed.init_process_group()` works in the actors of these processes. Where no address or port is given,
    the process of rank 0 is asked: for its host's name, or its address of the family `use_ipaddr`, and for a free port.

    Raises `TypeError` and `ValueError` for arguments that make no sense, `OSError` where the port is taken on the host
    of rank 0, `RuntimeError` where the processes were stopped or the host has no such address.
    """
    ranks = _spawn(proc_mesh, master_port)
    try:
        if master_addr is None or master_port is None:
            address, port = ranks[0].get_host_port.call_one(use_ipaddr).get()
            master_addr, master_port = master_addr or address, master_port or port
        ranks.setup_env.call(master_addr, master_port).get()
    finally:
        ranks.stop("the environment is set").get()


async def setup_torch_elastic_env_async(
    proc_mesh: ProcMesh,
    master_addr: str | None = None,
    master_port: int | None = None,
    use_ipaddr: AddrType | None = None,
) -> None:
    """As `setup_torch_elastic_env`, for programs and actors with an event loop."""
    ranks = _spawn(proc_mesh, master_port)
    try:
        if master_addr is None or master_port is None:
            address, port = await ranks[0].get_host_port.call_one(use_ipaddr)
            master_addr, master_port = master_addr or address, master_port or port
        await ranks.setup_env.call(master_addr, master_port)
    finally:
        await ranks.stop("the environment is set")


def _spawn(procs: ProcMesh, master_port: int | None) -> SPMDActor:
    if not isinstance(procs, ProcMesh):
        raise TypeError(f"{procs!r} is no ProcMesh: pass the processes that spawn_procs returned, or a view of them")
    if master_port is not None and not 0 < master_port < 65536:
        raise ValueError(f"master_port is {master_port}: a port is a number from 1 to 65535")
    return procs.spawn("torch_elastic_env", SPMDActor)
