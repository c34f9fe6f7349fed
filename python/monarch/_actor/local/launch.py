"""What a new worker is started with: its command, its environment and its welcome."""

from __future__ import annotations

import os
import pickle
import sys

from monarch import _native
from monarch._actor import mocking, settings
from monarch._actor.pickling import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch._actor.proc_mesh import ProcMesh

# The control socket is inherited as descriptor 3.
ARGUMENTS = ("-m", "monarch._src.actor.bootstrap_main", "3")

# Set only for the start of the interpreter; the worker puts the program's own values back.
_START_VARIABLES = ("PYTHONPATH", "PYTHONSAFEPATH")


def program() -> str:
    if not sys.executable:
        raise RuntimeError("cannot start processes: sys.executable is empty, so the interpreter's path is not known")
    return sys.executable


def directory() -> str:
    """Where workers start: where this process is. Raises `FileNotFoundError` where that directory was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            error.errno,
            "cannot start processes: the working directory of this process, in which they would start, was removed; "
            "change to one that exists first, as by os.chdir('/')",
        ) from None


def package_parent() -> str:
    """The directory that this package is imported from."""
    return os.path.dirname(os.path.dirname(os.path.abspath(_native.__file__ or __file__)))


def environment() -> list[tuple[str, str]]:
    """The program's environment, with what the interpreter needs to find this package and nothing else of ours.

    Without `PYTHONSAFEPATH` a file beside the program named like a standard module would be imported by the start-up.
    """
    path = os.pathsep.join(filter(None, (package_parent(), os.environ.get("PYTHONPATH"))))
    return list({**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}.items())


def welcome(procs: ProcMesh, bootstrap: Callable[[], Any] | None) -> bytes:
    """What the worker is told first: where it is, and what makes imports work as in the program."""
    return pickle.dumps(
        {
            "procs": procs,
            "path": [_absolute(entry) for entry in sys.path],
            "argv": list(getattr(sys, "argv", [])),
            "environment": {name: os.environ.get(name) for name in _START_VARIABLES},
            "bootstrap": _pickled(bootstrap),
            "mocks": _pickled((mocking.stand_ins, mocking.tensor_engines) if _any_mocks() else None),
            "settings": settings.to_pass_on(),
        },
        5,
    )


def _any_mocks() -> bool:
    return bool(mocking.stand_ins or mocking.tensor_engines)


def _pickled(value: object) -> tuple[bytes, list[bytes]] | None:
    """What may hold code of the program, and is unpickled once its modules can be imported; None for nothing."""
    if value is None:
        return None
    payload, buffers = dumps(value)
    return payload, [bytes(buffer) for buffer in buffers]


def _absolute(entry: str) -> str:
    """An entry of `sys.path` that means the same in another directory; some entries are no paths at all."""
    return os.path.abspath(entry) if os.path.exists(entry or ".") else entry
