"""The program of a host: listens, and serves one client after the other."""

from __future__ import annotations

import os
import sys
import threading

from monarch import _native
from monarch._actor import logs, settings
from monarch._actor.future import Future
from monarch._actor.hosts.attaching import refuse_tls
from monarch._actor.hosts.keys import host_key, is_insecure
from monarch._actor.local.launch import keeper, own_command
from monarch._actor.shape import Extent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def run_worker_loop_forever(*, private_key: None = None, ca: str, address: str) -> None:
    """Be a host at `address`, for one client at a time; ends the process with status 0 when a client shuts it down.

    Processes of the host get this process's environment and working directory. When a client goes away, what it
    started ends, and the host waits for the next. `ca` has to be "trust_all_connections", which means: no TLS. Over TCP
    the cluster key is demanded all the same. Raises `ValueError` for a malformed address, and where it would be
    reachable from other machines without a key; `OSError` where it cannot listen.
    """
    run_worker_loop_until_shutdown(private_key=private_key, ca=ca, address=address)
    sys.exit(0)


def run_worker_loop_until_shutdown(*, private_key: None = None, ca: str, address: str) -> None:
    """Like `run_worker_loop_forever`, but returns when a client shuts the host down."""
    refuse_tls(private_key, ca)
    serve(listen(address))


def start_worker_loop_forever(*, private_key: None = None, ca: str, address: str) -> Future[None]:
    """Like `run_worker_loop_until_shutdown` on a thread of its own; the future is done when a client shuts it down."""
    refuse_tls(private_key, ca)
    listener = listen(address)
    done = _native.Replies()

    def run() -> None:
        try:
            serve(listener)
        finally:
            done.complete()

    threading.Thread(target=run, name="monarch-host", daemon=True).start()
    nowhere = Extent((), ())
    return Future._of(done, 1, lambda _, replies: None, _Serving(f"host at {listener.address}", nowhere), quiet=True)


class _Serving:
    """What the future of a worker loop waits for."""

    root = None

    def __init__(self, label: str, extent: Extent) -> None:
        self.label = label
        self.extent = extent

    def is_answered_here(self, replies: _native.Replies) -> bool:
        return False


def listen(address: str, key_file: str | None = None) -> _native.HostListener:
    """Listen at `address`, with a warning where strangers may come in."""
    listener = _native.HostListener(address, host_key(key_file), is_insecure())
    if listener.open_to_strangers:
        print(
            f"monarch: WARNING: {listener.address} takes anybody's connections, and whoever connects can run code as "
            "this user (MONARCH_INSECURE_NETWORK=1)",
            file=sys.stderr,
            flush=True,
        )
    return listener


def serve(
    listener: _native.HostListener,
    name: str | None = None,
    idle_timeout_s: float | None = None,
    told: Callable[[str], None] = lambda news: None,
) -> None:
    """Serve one client after the other until one shuts the host down, or none has come for `idle_timeout_s`.

    `name` is what the host is called wherever it is spoken of, by default that of the machine.
    """
    name = name or os.uname().nodename
    while True:
        client = listener.accept(idle_timeout_s)
        if client is None:
            return told(f"no client came for {idle_timeout_s:g} s")
        kept_in = logs.directory(settings.of_client(client.settings))
        session = listener.serve(client, name, keeper(), own_command(), kept_in, logs.RUNS_KEPT)
        told(f"serving {client.name}")
        try:
            session.wait()
        finally:
            exits = listener.end(session)
        if exits:
            return told(f"{client.name} has shut this host down")
        told(f"{client.name} is gone")
