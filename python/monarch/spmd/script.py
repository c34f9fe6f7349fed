"""`SPMDActor`: one rank of a script that is written for torchrun."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

from monarch.actor import Actor, Port, context, endpoint
from monarch.spmd.environment import torchrun_defaults, torchrun_environment
from monarch.spmd.meeting_point import check_port_is_free, free_meeting_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from monarch._actor.ports.port import ResponsePort
    from monarch.tools.network import AddrType


class SPMDActor(Actor):
    """Runs a script as one rank; its position in the mesh it was spawned on is the rank.

    ```
    ranks = procs.spawn("ranks", SPMDActor)
    host, port = ranks[0].get_host_port.call_one().get()
    ranks.main.options(fail_fast=True).call(host, port, ["train.py", "--epochs", "3"]).get()
    ```

    With `fail_fast` the first error is raised, not those of the ranks that then miss the one that failed. The script
    runs in a thread, so that it can install no signal handlers.
    """

    @endpoint
    def get_host_port(self, use_ipaddr: AddrType | None = None) -> tuple[str, int]:
        """Name of this process's host, or an address of the asked family, and a free port of it."""
        return free_meeting_point(use_ipaddr)

    @endpoint
    def setup_env(self, master_addr: str, master_port: int) -> None:
        """Give this process torchrun's environment. Raises `OSError` on rank 0 where the port is taken."""
        self._set_up(master_addr, master_port)

    @endpoint(explicit_response_port=True)
    def main(self, port: Port[bool], master_addr: str, master_port: int, script_args: list[str]) -> None:
        """Give this process torchrun's environment and run a script as `__main__`; True when it has ended well.

        `script_args` is a path, or `-m` and the name of a module, followed by arguments. Raises what the script raises,
        `RuntimeError` where it exits with a status other than 0, and `ValueError` where there is no script.
        """
        caller: ResponsePort[bool] = port  # type: ignore[assignment]  # what an endpoint is given
        script = _Script(script_args)
        self._set_up(master_addr, master_port)
        try:
            script.run()
            caller.send(True)
        except Exception as error:
            if not caller.raised(error):
                raise
        finally:
            # After the answer: the others fail of this, and their errors are not the first.
            _leave_process_group()

    def _set_up(self, master_addr: str, master_port: int) -> None:
        me = context().actor_instance
        if me.rank.rank == 0:
            check_port_is_free(master_port)
        run_id = me.proc_mesh._root.mesh.hex()  # the same on all ranks, and on no other processes
        for name, value in torchrun_defaults(me.rank).items():
            os.environ.setdefault(name, value)
        os.environ.update(torchrun_environment(me.rank, master_addr, master_port, run_id))


def _leave_process_group() -> None:
    """What the end of a process of its own would do: ranks that wait for this one get an error, not nothing."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


class _Script:
    """A command line of Python: what to run, and its arguments."""

    def __init__(self, script_args: list[str]) -> None:
        if isinstance(script_args, str):
            raise TypeError(f"script_args is {script_args!r}: it has to be a list of strings, such as ['train.py']")
        self.is_module = bool(script_args) and script_args[0] == "-m"
        command = script_args[1:] if self.is_module else script_args
        if not command:
            raise ValueError(
                f"script_args is {script_args!r}: name a script or a module to run, as in ['train.py'] or "
                "['-m', 'package.train']"
            )
        self.name, *self.arguments = command

    def run(self) -> None:
        import runpy

        with self._as_command_line():
            try:
                if self.is_module:
                    runpy.run_module(self.name, run_name="__main__", alter_sys=True)
                else:
                    runpy.run_path(self.name, run_name="__main__")
            except SystemExit as end:
                self._check_exit(end)

    @contextmanager
    def _as_command_line(self) -> Iterator[None]:
        """Arguments and path of imports as the interpreter would have them."""
        argv, path = sys.argv[:], sys.path[:]
        sys.argv[:] = [self.name, *self.arguments]
        sys.path.insert(0, os.getcwd() if self.is_module else os.path.dirname(os.path.abspath(self.name)))
        try:
            yield
        finally:
            sys.argv[:] = argv
            sys.path[:] = path

    def _check_exit(self, end: SystemExit) -> None:
        if end.code is None or end.code == 0:
            return
        how = f"with status {end.code}" if isinstance(end.code, int) else f"with status 1: {end.code}"
        raise RuntimeError(f"script {self.name!r} exited {how}") from end
