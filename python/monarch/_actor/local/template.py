"""The keeper as a template: it has loaded what every worker needs, and a worker is a copy of it.

Whatever is imported here is shared by all workers; nothing of the user's ever is. `docs/processes.md` says what a copy
has of its template and what it has of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
import types

from monarch import _native
from monarch._actor import out_of_band, worker
from monarch._actor.local import launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# What a worker imports until it serves its first call, beside what `worker` imports.
_USED_BY_EVERY_WORKER = (
    "monarch.actor",
    "monarch._actor.local.actor",
    "monarch._actor.local.sync_loop",
)

# The control socket of a worker, and a template's to its keeper.
_SOCKET = 3

# Variables that are read when an interpreter or its libraries start. A trailing part of the name may be left out.
_FIXED = ("PYTHON", "LD_", "DYLD_", "GLIBC_TUNABLES", "MALLOC_", "LC_", "LANG", "COV", "ASAN_", "TSAN_", "UBSAN_")

# The same for PyTorch and what it loads.
_FIXED_WITH_TORCH = (
    "ATEN_",
    "BLIS_",
    "CUBLAS",
    "CUDA",
    "CUDNN",
    "DNNL_",
    "GOMP_",
    "GOTO_",
    "HIP_",
    "HSA_",
    "KINETO_",
    "KMP_",
    "MKL_",
    "NCCL_",
    "NPY_",
    "NUMEXPR_",
    "NUMPY_",
    "NVIDIA_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PYTORCH_",
    "ROCM_",
    "ROCR_",
    "TORCH",
    "TRITON_",
    "VECLIB_",
)


def main() -> NoReturn:
    """Be a keeper whose agent is at the other end of descriptor 0, and a template. The arguments are the program that
    workers are started with, and names of modules to load for them."""
    program, *modules = sys.argv[1:]
    gc.disable()
    _load_modules([*_USED_BY_EVERY_WORKER, *modules])
    end = _native.run_keeper(0, program, launch.ARGUMENTS, _FIXED, _FIXED_WITH_TORCH, _objection(), _load_modules)
    if isinstance(end, _native.Birth) and end.is_template:
        _set_environment(end.environment)
        reason = _load_variant(end.variant)
        gc.freeze()
        end = _native.run_template(_SOCKET, end.variant, reason)
    if isinstance(end, int):
        os._exit(end)
    _become_worker(end)


def _objection() -> str | None:
    """Why a copy of this interpreter would not be what a fresh one is."""
    if sys.gettrace() is not None or sys.getprofile() is not None or _is_monitored():
        return "a debugger, profiler or coverage tool is at work in every interpreter that starts"
    if sys.stdout is None or sys.stderr is None:
        return "the program has closed its standard output or error, and a worker has its own"
    return None


def _is_monitored() -> bool:
    monitoring = getattr(sys, "monitoring", None)  # from Python 3.12 on
    return monitoring is not None and any(monitoring.get_tool(number) for number in range(6))


def _load_modules(modules: list[str]) -> None:
    """Load modules of this package for all workers that are copied from now on."""
    for module in modules:
        importlib.import_module(module)
    gc.freeze()


def _load_variant(variant: str) -> str | None:
    """Load PyTorch; why copies of this process would not do, if so."""
    autoload = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # an accelerator that is touched cannot be used in a copy
    try:
        import torch
    except Exception as error:
        return f"it cannot be imported: {error}"
    finally:
        if autoload is None:
            del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        else:
            os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = autoload
    wanted = launch.torch_file_of(variant)
    if wanted and torch.__file__ != wanted:
        return f"the import of torch finds {torch.__file__}, and the program has {wanted}"
    if torch.cuda.is_initialized():
        return "its import has touched the accelerator"
    out_of_band.learn_reducers()  # or each worker would do it, at a moment when it may not be able to
    return _thread_objection()


def _thread_objection() -> str | None:
    """Why a copy may lack a thread. A pool that is idle ends before a fork, and starts again when it is needed."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    count = len(os.listdir("/proc/self/task"))
    return f"its import has left {count} threads running" if count > 1 else None


def _become_worker(birth: _native.Birth) -> NoReturn:
    """Be what a new interpreter would be that runs the worker's module."""
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.orig_argv[:] = [sys.argv[1], *launch.ARGUMENTS]
    sys.path_importer_cache.clear()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    _set_environment(birth.environment)
    _reseed()
    gc.enable()
    _end(worker.main(_SOCKET))


def _end(status: int) -> NoReturn:
    """End as an interpreter does, except that it is not taken apart: that would write to every page of the template,
    each of which the kernel would have to copy for it."""
    getattr(threading, "_shutdown", lambda: None)()  # waits for the program's threads that are no daemons
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()  # it prints what they raise
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    _native.exit_process(status)


def _set_environment(environment: list[tuple[str, str]]) -> None:
    new = dict(environment)
    for name in [name for name in os.environ if name not in new]:
        del os.environ[name]
    zone = os.environ.get("TZ")
    for name, value in new.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    if new.get("TZ") != zone:
        import time

        time.tzset()


def _reseed() -> None:
    """Draw numbers of one's own; `random` does that by itself."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.seed()
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        multiprocessing.current_process().authkey = os.urandom(32)
