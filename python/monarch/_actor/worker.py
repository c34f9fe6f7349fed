"""The whole life of a worker process."""

from __future__ import annotations

import os
import pickle
import signal
import sys

from monarch import _native
from monarch._actor import context, mocking, settings, thread_context
from monarch._actor.local import python_logging, stacks
from monarch._actor.local.process import Process
from monarch._actor.shape import Region

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from monarch._actor.proc_mesh import ProcMesh


def main(control: int) -> int:
    """Be a worker on the control socket `control`; returns the exit status."""
    runtime = _native.Runtime.start_worker(control)
    stacks.tell(runtime, signal.SIGURG)
    welcome: dict[str, Any] = pickle.loads(runtime.welcome)
    procs: ProcMesh = welcome["procs"]
    _resemble_program(
        welcome,
        is_elsewhere=procs._root.host_of(runtime.rank)._identities() != welcome["host"],
        host=runtime.host,
    )
    settings.inherit(welcome["settings"])
    _share_cores(procs)
    process = Process(runtime, procs._root.host_of(runtime.rank), procs._with_region(Region.of_rank(runtime.rank)))
    process.spawned_by = welcome["spawner"]
    context._process = process
    thread_context.install()
    signal.signal(signal.SIGTERM, _terminate)
    python_logging.set_up_worker(runtime.log_level)
    status = 0
    try:
        process.bootstrap_error = _bootstrap(welcome["bootstrap"], welcome["mocks"])
        process.serve()
    except _Terminated as end:
        status = 128 + end.signal
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    # It ends already, in bounded time: being asked once more changes nothing.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    process.end_actors("its process ended")
    runtime.shutdown(0)
    _native.interpreter_ends()
    return status


def _resemble_program(welcome: dict[str, Any], is_elsewhere: bool, host: str) -> None:
    """Make imports, arguments and variables what they are in the program that spawned this process.

    On another host its directories come first where they exist there too, and this interpreter's own stay.
    """
    path = welcome["path"]
    if is_elsewhere:
        path = [entry for entry in path if os.path.exists(entry)]
    sys.path[:] = path + [entry for entry in sys.path if is_elsewhere and entry not in path]
    sys.argv[:] = welcome["argv"] or [""]
    # Another host's variables are its own.
    for name, value in () if is_elsewhere else welcome["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if welcome["umask"] is not None:
        os.umask(welcome["umask"])
    if welcome["affinity"] is not None:
        its_host, cores = welcome["affinity"]
        if its_host == host and cores != os.sched_getaffinity(0):
            os.sched_setaffinity(0, cores)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)


def _share_cores(procs: ProcMesh) -> None:
    """Where PyTorch came with the template: use a fair share of the cores, unless the program says how many threads."""
    torch = sys.modules.get("torch")
    if torch is None or os.environ.get("OMP_NUM_THREADS") or os.environ.get("MKL_NUM_THREADS"):
        return
    here = len(procs._root.region) // len(procs._root.host._region)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // here))


def _bootstrap(
    bootstrap: tuple[bytes, list[bytes]] | None, mocks: tuple[bytes, list[bytes]] | None
) -> BaseException | None:
    """Run what the program wants to run first; what it raised is why no actor starts here."""
    from monarch._actor.pickling import loads

    try:
        if mocks is not None:
            stand_ins, tensor_engines = loads(*mocks)
            mocking.stand_ins.update(stand_ins)
            mocking.tensor_engines.update(tensor_engines)
        result = loads(*bootstrap)() if bootstrap is not None else None
        if hasattr(result, "__await__"):
            import asyncio

            asyncio.run(_awaited(result))
    except _Terminated:
        raise
    except BaseException as error:
        return error
    return None


async def _awaited(awaitable: Any) -> None:
    await awaitable


class _Terminated(BaseException):
    """Raised in the main thread by a signal that asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


def _terminate(number: int, frame: FrameType | None) -> None:
    if context._process is None or os.getpid() != context._process.pid:
        # A child that user code forked ends as any process does.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    signal.signal(number, signal.SIG_IGN)  # asked once is enough; what follows is bounded in time
    raise _Terminated(number)
