"""The program as a client of the runtime: started by the first use, ended with the interpreter."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time

from monarch import _native
from monarch._actor import context, logs, settings, thread_context
from monarch._actor.context import Context, Instance, _context
from monarch._actor.errors import SupervisionError
from monarch._actor.host_mesh import single_host
from monarch._actor.local import fatal, launch, stacks
from monarch._actor.local.process import Process
from monarch._actor.local.root import Root
from monarch._actor.proc_mesh import ProcMesh, ProcMeshRoot
from monarch._actor.shape import Extent, Point

# How long workers may take to end before they are killed when the program ends.
EXIT_S = 5.0

# How long the end of a program waits until it has been told of failures that are known.
LAST_FAILURES_S = 2.0

_lock = threading.Lock()
_end_lock = threading.Lock()


def start() -> Process:
    """Make this process a client, once."""
    with _lock:
        if context._process is None:
            context._process = _start()
        process = context._process
    if process.root_context is not None and _context.get() is None:
        _context.set(process.root_context)
    return process


def _start() -> Process:
    host_name = os.uname().nodename
    runtime = _native.Runtime.start_client(*launch.keeper(), host_name, launch.own_command())
    settings.warn_of_unknown_variables()
    logs.set_up(runtime)
    stacks.tell(runtime, None)
    nowhere = Extent((), ())
    host = single_host(runtime.mesh, host_name)
    procs = ProcMesh(ProcMeshRoot(runtime.mesh, "client", nowhere.region, host), nowhere.region)
    process = Process(runtime, host, procs)
    process.root = Root(process, _native.new_id())
    process.root.instance = Instance(process.root, "root", None, Point(0, nowhere), procs, None)
    process.root_context = Context(process.root.instance, 0, nowhere)
    fatal.install()
    thread_context.install()
    thread_context.start_service(process.serve, "monarch-process")
    # The last registered runs first: threads that still wait in the runtime must not come back to a dying interpreter.
    atexit.register(_native.interpreter_ends)
    atexit.register(_shut_down, process)
    return process


def _shut_down(process: Process) -> None:
    """End everything that this program started, in bounded time and without a word."""
    if os.getpid() != process.pid:
        return  # a fork of the program: nothing here is its own
    _silence_daemon_threads()
    try:
        _tell_failures(process)
        end_client(process, "the program ended", EXIT_S)
    except KeyboardInterrupt:  # one more Ctrl-C: the user won't wait
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process.runtime.shutdown(0.0)
    if fatal.came_too_late():
        fatal.exit_now()  # nothing else changes the status of a program that is over


def _tell_failures(process: Process) -> None:
    """A failure that was known before the program's end is not lost: it is told now, and may change the status."""
    if process.runtime.closed or not isinstance(process.root, Root):
        return
    process.hear()
    process.root.wait_until_told(LAST_FAILURES_S)


def end_client(process: Process, reason: str, grace_s: float) -> None:
    """End what this program started, within about `grace_s` seconds, once: who comes later waits for who came first."""
    with _end_lock:
        if process.runtime.closed:
            return
        process.end_actors(reason)
        _end_processes(process, reason, grace_s)
        process.runtime.shutdown(grace_s)


def _end_processes(process: Process, reason: str, grace_s: float) -> None:
    """End the program's own processes, and with them what they own. Ctrl-C is answered, unlike in the shutdown."""
    assert process.root is not None, "a client has a root"
    roots = list(process.root.proc_meshes.values())
    for root in roots:
        root.note_stopped(reason)
    stops = [process.runtime.stop_procs(root.mesh, reason, grace_s) for root in roots]
    deadline = time.monotonic() + grace_s
    for stop in stops:
        stop.wait(1, max(0.0, deadline - time.monotonic()))


def _silence_daemon_threads() -> None:
    """A daemon thread that waits for an actor meets its end here, as it would meet the interpreter's: unheard."""
    before = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        if not (issubclass(args.exc_type, SupervisionError) and args.thread is not None and args.thread.daemon):
            before(args)

    threading.excepthook = hook
