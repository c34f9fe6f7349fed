"""Addresses of hosts."""

from __future__ import annotations

import socket
from enum import Enum


class AddrType(Enum):
    """Which family of addresses is asked for."""

    Default = 1
    IPv4 = 2
    IPv6 = 3


def get_ipaddr(hostname: str, port: int, addr_type: AddrType = AddrType.Default) -> str:
    """The numeric address of a host, of the asked family, or of the one that the system prefers.

    Raises `RuntimeError` where the host has no such address.
    """
    family = _FAMILIES[addr_type]
    try:
        return str(socket.getaddrinfo(hostname, port, family, socket.SOCK_STREAM)[0][4][0])
    except socket.gaierror as error:
        wanted = "" if addr_type is AddrType.Default else f"{addr_type.name} "
        raise RuntimeError(
            f"host {hostname!r} has no {wanted}address: {error.strerror}; check the name and the network configuration"
        ) from error


_FAMILIES = {
    AddrType.Default: socket.AF_UNSPEC,
    AddrType.IPv4: socket.AF_INET,
    AddrType.IPv6: socket.AF_INET6,
}
