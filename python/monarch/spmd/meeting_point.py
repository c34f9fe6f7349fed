"""Where the ranks of `torch.distributed` meet: an address and a port of rank 0's host."""

from __future__ import annotations

import errno
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch.tools.network import AddrType


def free_meeting_point(use_ipaddr: AddrType | None) -> tuple[str, int]:
    """Name of this host, or an address of the asked family, and a port that is free now."""
    port = _free_port()
    if use_ipaddr is None:
        return _host_name(port), port
    from monarch.tools.network import get_ipaddr

    return get_ipaddr(socket.gethostname(), port, use_ipaddr), port


def check_port_is_free(port: int) -> None:
    """Raise `OSError` where rank 0 could not listen on `port`, for else the other ranks would wait for it in vain."""
    if os.environ.get("MASTER_PORT") == str(port):
        return  # set up before: whoever listens there by now is most likely the program itself
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise OSError(
                errno.EADDRINUSE,
                f"master_port {port} is taken on {socket.gethostname()}, the host of rank 0: name another, or none to "
                "have a free one chosen",
            ) from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def _host_name(port: int) -> str:
    """A name or address by which others find this host; its name, where that can be looked up."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, port)
    except socket.gaierror:
        return _outward_address()
    return name


def _outward_address() -> str:
    """The address that this host has on its way out, or the loopback address of a host without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ANY_ADDRESS_OUTSIDE)  # chooses a route and sends nothing
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
        return address


_ANY_ADDRESS_OUTSIDE = ("192.0.2.1", 9)  # reserved for documentation
