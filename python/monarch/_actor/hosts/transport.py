"""`ChannelTransport` and `enable_transport`: how processes reach each other, as programs for torchmonarch say it."""

from __future__ import annotations

from enum import Enum


class ChannelTransport(Enum):
    """Ways between processes. Here every host is reached by the address that it is attached by, so a client needs none
    of these; the members exist so that programs which name one run."""

    Unix = "ipc"
    TcpWithLocalhost = "tcp-localhost"
    TcpWithHostname = "tcp"
    MetaTlsWithHostname = "metatls-hostname"
    MetaTlsWithIpV6 = "metatls"
    Tls = "tls"
    Quic = "quic"
    MetaQuicWithHostname = "metaquic-hostname"
    MetaQuicWithIpV6 = "metaquic"
    Local = "local"


_SUPPORTED = (ChannelTransport.Unix, ChannelTransport.TcpWithLocalhost, ChannelTransport.TcpWithHostname)

_chosen: ChannelTransport | str | None = None


def enable_transport(transport: ChannelTransport | str) -> None:
    """Choose how processes reach each other; before the first use of the client, or again with the same value.

    The client never listens, whatever is chosen: it connects to the hosts that it attaches. Raises `ValueError` for an
    unknown or malformed one, `NotImplementedError` for one that this version lacks, `RuntimeError` for another one
    than before, or after the client has started.
    """
    global _chosen
    from monarch._actor import context

    wanted = _parsed(transport)
    if _chosen == wanted or (_chosen is None and context._process is not None and wanted is ChannelTransport.Unix):
        return
    if _chosen is not None or context._process is not None:
        before = _chosen if _chosen is not None else ChannelTransport.Unix
        raise RuntimeError(
            f"cannot enable the transport {wanted}: {before} is in use; call enable_transport before anything else"
        )
    _chosen = wanted


def _parsed(transport: ChannelTransport | str) -> ChannelTransport | str:
    if isinstance(transport, str) and "://" not in transport:
        try:
            transport = ChannelTransport(transport)
        except ValueError:
            known = ", ".join(member.value for member in ChannelTransport)
            raise ValueError(
                f"invalid bind spec {transport!r}: it has to be one of {known}, or an address such as tcp://host:port"
            ) from None
    if isinstance(transport, str):
        from monarch import _native

        _native.check_address(transport)
        return transport
    if not isinstance(transport, ChannelTransport):
        raise TypeError(f"transport is {transport!r}: it has to be a ChannelTransport or a string")
    if transport not in _SUPPORTED:
        raise NotImplementedError(f"the transport {transport} is not supported by this version")
    return transport
