"""Where a program finds the cluster key, the secret that lets it join hosts over a network."""

from __future__ import annotations

import os

from monarch import _native

FILE_VARIABLE = "MONARCH_CLUSTER_KEY_FILE"
DESCRIPTOR_VARIABLE = "MONARCH_CLUSTER_KEY_FD"
INSECURE_VARIABLE = "MONARCH_INSECURE_NETWORK"

_from_descriptor: _native.ClusterKey | None = None


def default_path() -> str:
    """`$XDG_CONFIG_HOME/monarch/cluster.key`, in the usual place where that is not set."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(config, "monarch", "cluster.key")


def is_insecure() -> bool:
    """Whether the user does without a key. Raises `ValueError` for a value that is neither yes nor no."""
    value = os.environ.get(INSECURE_VARIABLE, "0")
    if value not in ("", "0", "1"):
        raise ValueError(f"{INSECURE_VARIABLE} is {value!r}: it has to be 1 (no key, anybody may connect) or 0")
    return value == "1"


def client_key() -> _native.ClusterKey | None:
    """The key of a program that attaches hosts: made where there is none yet; None where the user does without."""
    if is_insecure():
        return None
    return _given() or _native.ClusterKey.read_or_create(_path())


def host_key(file: str | None = None) -> _native.ClusterKey | str | None:
    """The key of a host, or the file where a client of this user will make it; None where the user does without.

    A file that was named and is not there raises `FileNotFoundError`: a host makes no keys.
    """
    if is_insecure() and file is None:
        return None
    if file is None and (given := _given()) is not None:
        return given
    path = file or _path()
    if file is None and path == default_path():
        return path
    key = _native.ClusterKey.read(path)
    if key is None:
        raise FileNotFoundError(
            2, f"the cluster key {path!r} is not there: copy it from the client, or make one with `monarch key create`"
        )
    return key


def _path() -> str:
    return os.environ.get(FILE_VARIABLE) or default_path()


def _given() -> _native.ClusterKey | None:
    """The key from an inherited descriptor, which can be read once."""
    global _from_descriptor
    number = os.environ.get(DESCRIPTOR_VARIABLE)
    if _from_descriptor is None and number:
        if not number.isdecimal():
            raise ValueError(f"{DESCRIPTOR_VARIABLE} is {number!r}: it has to be the number of a descriptor")
        _from_descriptor = _native.ClusterKey.read_descriptor(int(number))
    return _from_descriptor
