"""What a new worker is started with: its command, its environment and its welcome."""

from __future__ import annotations

import os
import pickle
import sys

from monarch import _native
from monarch._actor import mocking, settings
from monarch._actor.bootstrap_command import WORKER_MODULE
from monarch._actor.context import this_host
from monarch._actor.pickling import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from monarch._actor.hosts.commands import Command
    from monarch._actor.proc_mesh import ProcMesh

# The control socket is inherited as descriptor 3.
ARGUMENTS = ("-m", WORKER_MODULE, "3")

# An event loop, for actors that have one: twice as much to load as all the rest.
_ASYNC_LOOP = "monarch._actor.local.async_loop"

# Set only for the start of the interpreter; the worker puts the program's own values back.
_START_VARIABLES = ("PYTHONPATH", "PYTHONSAFEPATH")


# The keeper where workers are programs: it imports this package's native module and nothing else.
_PLAIN_KEEPER = (
    "import sys; sys.path.insert(0, {!r}); from monarch import _native; raise SystemExit(_native.run_keeper(0))"
)

# The keeper that workers are copies of: started as a worker would be. Before Python 3.11 `-c` puts the working
# directory first, whatever PYTHONSAFEPATH says.
_TEMPLATE_KEEPER = (
    "import sys; sys.version_info < (3, 11) and sys.path.pop(0); from monarch._actor.local.template import main; main()"
)


def keeper() -> tuple[list[str], list[tuple[str, str]]]:
    """The keeper's command, and the variables that it has beside this process's."""
    if _native.build_info()["platform"] != "linux" or settings.value("worker_template") == "none":
        return [program(), "-I", "-S", "-c", _PLAIN_KEEPER.format(package_parent())], []
    return [program(), "-c", _TEMPLATE_KEEPER, program(), *_likely_modules()], list(_start_variables().items())


def _likely_modules() -> list[str]:
    """What all workers of this program will import besides, as far as one can tell before any was asked for."""
    from monarch._actor.actor import Actor, is_async_kind

    classes: list[type] = [Actor]
    for actor_class in classes:
        classes.extend(actor_class.__subclasses__())
    found = []
    if any(actor_class.__module__ == "__main__" for actor_class in classes):
        found.append("monarch._actor.by_value")
    if len(classes) > 1 and all(map(is_async_kind, classes[1:])):
        found.append(_ASYNC_LOOP)
    return found


def prepare_for(actor_class: type, runtime: _native.Runtime) -> bool:
    """Have workers that start from now on as copies begin with an event loop, if actors of this class have one.

    A keeper that has just been asked for its first workers is still loading, so this comes in time for them.
    """
    from monarch._actor.actor import is_async_kind

    has_loop = is_async_kind(actor_class)
    if has_loop:
        runtime.load_for_workers([_ASYNC_LOOP])
    return has_loop


def variant() -> str:
    """What the template of a new worker should have loaded: PyTorch, at its place if this process knows it."""
    choice = settings.value("worker_template")
    torch = sys.modules.get("torch")
    if torch is not None and choice == "auto":
        return f"torch@{torch.__file__}"
    return "torch" if choice == "torch" else ""


def torch_file_of(variant: str) -> str:
    """Where `variant` says that PyTorch is; empty where it does not say."""
    return variant.partition("@")[2]


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


def own_command() -> Command:
    """What a process runs on this machine where nobody says otherwise; where its directory was removed, in `/`."""
    try:
        where = directory()
    except FileNotFoundError:
        where = "/"
    return [], program(), ARGUMENTS, environment(), False, where


def package_parent() -> str:
    """The directory that this package is imported from."""
    return os.path.dirname(os.path.dirname(os.path.abspath(_native.__file__ or __file__)))


def environment() -> list[tuple[str, str]]:
    """The program's environment, with what the interpreter needs to find this package and nothing else of ours.

    Without `PYTHONSAFEPATH` a file beside the program named like a standard module would be imported by the start-up.
    """
    return list({**os.environ, **_start_variables()}.items())


def _start_variables() -> dict[str, str]:
    ours, theirs = package_parent(), list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    # The program's own come first, as in the program: a template imports too. Another copy of this package must not.
    ours_first = any(os.path.isdir(os.path.join(entry, "monarch")) for entry in theirs)
    path = [ours, *theirs] if ours_first else [*theirs, ours]
    return {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}


def welcome(procs: ProcMesh, spawner: tuple[bytes, int], bootstrap: Callable[[], Any] | None, is_bound: bool) -> bytes:
    """What the worker is told first: where it is, and what makes imports work as in the program.

    One `is_bound` to cores by its command keeps those, instead of the program's.
    """
    return pickle.dumps(
        {
            "procs": procs,
            "spawner": spawner,
            "host": this_host()._identities(),
            "path": [_absolute(entry) for entry in sys.path],
            "argv": list(getattr(sys, "argv", [])),
            "environment": {name: os.environ.get(name) for name in _START_VARIABLES},
            "umask": _umask(),
            "affinity": None if is_bound else _affinity(),
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


def _umask() -> int | None:
    """This process's file mode mask; None where reading it means changing it, which other threads might notice."""
    try:
        with open("/proc/self/status") as status:
            return next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), None)
    except OSError:
        return None


def _affinity() -> tuple[str, set[int]] | None:
    """This host, and on which of its cores this thread may run; None where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    return os.uname().nodename, os.sched_getaffinity(0)


def _absolute(entry: str) -> str:
    """An entry of `sys.path` that means the same in another directory; some entries are no paths at all."""
    return os.path.abspath(entry) if os.path.exists(entry or ".") else entry
