"""`attach_to_workers`: hosts whose worker programs run already, as a mesh."""

from __future__ import annotations

import os
from collections.abc import Sequence

from monarch import _native
from monarch._actor import logs, settings
from monarch._actor.context import process
from monarch._actor.future import Future
from monarch._actor.host_mesh import HostMesh, HostMeshRoot
from monarch._actor.mesh_root import Subject
from monarch._actor.shape import Extent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.host_mesh import Hosts

# The host by way of which others are reached.
_gateway: str | None = None

# How long a worker program may take to listen. One that is refused for another reason fails at once.
PATIENCE_S = 10.0


def attach_to_workers(
    *,
    private_key: None = None,
    ca: str,
    workers: Sequence[str | Future[str]],
    name: str | None = None,
    patience_s: float = PATIENCE_S,
) -> HostMesh:
    """The hosts whose worker programs listen at `workers`, in this order: extent `{hosts: len(workers)}`.

    Returns at once (addresses that are futures are waited for), and processes can be spawned at once;
    `initialized` tells when all are attached, or which are not and why. A host at which nobody listens yet is tried for
    `patience_s` seconds. `ca` has to be "trust_all_connections", which means: no TLS. The cluster key is demanded all
    the same, see docs/clusters.md. Raises `ValueError` for a malformed address, and outside the client.
    """
    refuse_tls(private_key, ca)
    if isinstance(workers, str) or not isinstance(workers, Sequence):
        raise TypeError(f"workers is {workers!r}: it has to be a sequence of addresses")
    addresses = [worker.get() if isinstance(worker, Future) else worker for worker in workers]
    return attach_hosts(addresses, name or "hosts", patience_s)


def attach(addr: str) -> None:
    """Reach the hosts of a cluster by way of the one whose worker program listens at `addr`.

    For a program outside the cluster: from then on this process connects to that host only, which passes on what is for
    others; their addresses are as they are known there. Before anything else that starts the client; the same address
    again does nothing. Raises `ValueError` for a malformed address, `RuntimeError` for another one than before, after
    the client has started, and where the host cannot be reached or has another key.
    """
    global _gateway
    from monarch._actor import context
    from monarch._actor.hosts.keys import client_key

    if addr == _gateway:
        return
    if _gateway is not None:
        raise RuntimeError(f"cannot attach to {addr}: this program is attached to {_gateway}; there can be only one")
    if context._process is not None:
        raise RuntimeError(f"cannot attach to {addr}: call attach before anything that starts the client")
    _native.knock(addr, client_key() if _demands_key(addr) else None)
    _gateway = addr


def attach_hosts(addresses: Sequence[str], name: str, patience_s: float = PATIENCE_S) -> HostMesh:
    """Attach the hosts at `addresses`."""
    if not addresses:
        raise ValueError("workers is empty: there has to be at least one host")
    hosts = tuple((_native.new_id(), address) for address in addresses)
    region = Extent(("hosts",), (len(hosts),)).region
    root = HostMeshRoot(_native.new_id(), name, region, hosts)
    root.attached = _attach(hosts, patience_s)
    return HostMesh(root, region, owned=True)


def replace_host(root: HostMeshRoot, rank: int, address: str, patience_s: float) -> Future[None]:
    """Attach a host in the place of a lost one, under its identity, so that references to it mean the new one."""
    identity, lost = root.hosts[rank]
    replies = _attach(((identity, address),), patience_s)
    root.replacements[rank] = replies
    root.hosts = (*root.hosts[:rank], (identity, address), *root.hosts[rank + 1 :])

    def replaced(hosts: Subject, replies: _native.Replies) -> None:
        if reason := _why_not(replies.message(0)):
            raise RuntimeError(f"cannot put the host {address} in the place of {lost}: {reason}")

    return Future._of(replies, 1, replaced, Subject(f"{root.name}.replace", Extent((), ()), root))


def _attach(hosts: Hosts, patience_s: float) -> _native.Replies:
    from monarch._actor.hosts.keys import client_key

    addresses = [address for _, address in hosts]
    key = client_key() if any(_demands_key(address) for address in [*addresses, _gateway or ""]) else None
    who = f"pid {os.getpid()} on {os.uname().nodename}"
    passed_on = settings.texts_for_hosts()
    return process().runtime.attach_hosts(hosts, key, (who, logs.run_name()), passed_on, patience_s, _gateway)


def _demands_key(address: str) -> bool:
    return address.partition("@")[0].startswith("tcp")


def all_attached(hosts: Subject, replies: _native.Replies) -> bool:
    """True; raises `RuntimeError` for hosts that could not be attached."""
    root = hosts.root
    assert isinstance(root, HostMeshRoot), "hosts are attached as a mesh of hosts"
    answers = {message.rank: message for message in map(replies.message, range(replies.arrived))}
    answers.update({rank: later.message(0) for rank, later in root.replacements.items() if later.arrived})
    failed = {rank: reason for rank, answer in sorted(answers.items()) if (reason := _why_not(answer))}
    if failed:
        causes = "; ".join(f"{root.hosts[rank][1]}: {reason}" for rank, reason in failed.items())
        raise RuntimeError(f"attach failed on {len(failed)} of {len(root.hosts)} host(s): {causes}")
    return True


def _why_not(answer: _native.Message) -> str:
    """Why a host could not be attached; empty where it was."""
    if answer.status == _native.STATUS_VALUE:
        return ""
    return answer.death.reason if answer.death is not None else answer.payload.decode()


def refuse_tls(private_key: object, ca: object) -> None:
    """Raise `NotImplementedError` for anything but the one value that means: no TLS."""
    if private_key is not None or ca != "trust_all_connections":
        raise NotImplementedError(
            f'ca={ca!r}: TLS is not supported by this version; give ca="trust_all_connections", which means no TLS '
            "(the cluster key is demanded all the same)"
        )
