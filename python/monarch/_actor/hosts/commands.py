"""How the processes of a mesh are started: one command for all of them, or one for each."""

from __future__ import annotations

from monarch._actor.bootstrap_command import WORKER_MODULE, BootstrapCommand
from monarch._actor.context import this_host
from monarch._actor.local import launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from monarch._actor.host_mesh import HostMesh
    from monarch._actor.shape import Extent, Point

    # Words before the program, program, arguments, environment, whether the host's is inherited, directory. What is
    # empty is as the host has it.
    Command = tuple[list[str], str, Sequence[str], Sequence[tuple[str, str | None]], bool, str]
    HowToStart = BootstrapCommand | Callable[[Point], BootstrapCommand]

_NUMACTL = ("cpunodebind", "membind", "physcpubind")


def commands(
    hosts: HostMesh,
    extent: Extent,
    per_host: int,
    proc_bind: Sequence[Mapping[str, str]] | None,
    bootstrap_command: HowToStart | None,
    python: str | None,
) -> list[Command]:
    """The command of each process of `extent`, or one that serves for all."""
    is_here = hosts._identities() == this_host()._identities()
    how = bootstrap_command
    if how is None and python is not None:
        how = BootstrapCommand(python, None, ["-m", WORKER_MODULE])
    prefixes = [[]] if proc_bind is None else _prefixes(proc_bind, per_host)
    if (how is None or isinstance(how, BootstrapCommand)) and len(prefixes) == 1:
        return [_command(prefixes[0], how, is_here)]
    made = []
    for rank in range(extent.nelements):
        one = how if how is None or isinstance(how, BootstrapCommand) else _made(how, rank, extent)
        made.append(_command(prefixes[rank % per_host % len(prefixes)], one, is_here))
    return made


def _command(prefix: list[str], how: BootstrapCommand | None, is_here: bool) -> Command:
    if how is None:
        if not is_here:
            return prefix, "", [], [], True, ""
        return prefix, launch.program(), launch.ARGUMENTS, launch.environment(), False, launch.directory()
    if how.arg0 is not None and how.arg0 != how.program:
        prefix = [*prefix, "bash", "-c", 'exec -a "$0" "$@"', how.arg0]
    if not is_here:
        return prefix, how.program, how.args, list(how.env.items()), how.inherit_env, ""
    inherited: dict[str, str | None] = dict(launch.environment()) if how.inherit_env else {}
    return prefix, how.program, how.args, list({**inherited, **how.env}.items()), False, launch.directory()


def _made(how: Callable[[Point], BootstrapCommand], rank: int, extent: Extent) -> BootstrapCommand:
    from monarch._actor.shape import Point

    command = how(Point(rank, extent))
    if not isinstance(command, BootstrapCommand):
        raise TypeError(f"bootstrap_command returned {command!r}: it has to return a BootstrapCommand")
    return command


def _prefixes(proc_bind: Sequence[Mapping[str, str]], per_host: int) -> list[list[str]]:
    if len(proc_bind) != per_host:
        raise ValueError(f"proc_bind has {len(proc_bind)} entries: it needs one for each of the {per_host} per host")
    return [_prefix(binding) for binding in proc_bind]


def _prefix(binding: Mapping[str, str]) -> list[str]:
    unknown = [key for key in binding if key != "cpus" and key not in _NUMACTL]
    if unknown:
        raise ValueError(f"proc_bind has the key {unknown[0]!r}: known are cpus, {', '.join(_NUMACTL)}")
    numa = [f"--{key}={binding[key]}" for key in _NUMACTL if key in binding]
    prefix = ["numactl", *numa] if numa else []
    return [*prefix, "taskset", "-c", str(binding["cpus"])] if "cpus" in binding else prefix
