"""`BootstrapCommand`: how a worker process is started, as a value."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORKER_MODULE = "monarch._src.actor.bootstrap_main"


class BootstrapCommand:
    """A program with its arguments and its environment. Equal by value; `with_env` makes another one.

    `arg0` is what the program sees as its own name, `program` where None. `env` goes on top of the environment of who
    starts it (`inherit_env`) or of an empty one; a variable whose value is None is removed.
    """

    __slots__ = ("arg0", "args", "env", "inherit_env", "program")

    def __init__(
        self,
        program: str,
        arg0: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
        inherit_env: bool = True,
    ) -> None:
        self.program = program
        self.arg0 = arg0
        self.args = list(args)
        self.env = dict(env or {})
        self.inherit_env = inherit_env

    def with_env(self, env: Mapping[str, str | None]) -> BootstrapCommand:
        """The same command with further variables; None removes one that would be inherited."""
        return BootstrapCommand(self.program, self.arg0, self.args, {**self.env, **env}, self.inherit_env)

    def _fields(self) -> tuple[str, str | None, list[str], dict[str, str | None], bool]:
        return self.program, self.arg0, self.args, self.env, self.inherit_env

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BootstrapCommand):
            return NotImplemented
        return self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment]  # its parts may be changed

    def __repr__(self) -> str:
        # Names of variables only: their values may be secrets.
        variables = ", ".join(f"-{name}" if value is None else name for name, value in self.env.items())
        return (
            f"BootstrapCommand(program={self.program!r}, arg0={self.arg0!r}, args={self.args!r}, env={{{variables}}}, "
            f"inherit_env={self.inherit_env})"
        )

    def __reduce__(
        self,
    ) -> tuple[type[BootstrapCommand], tuple[str, str | None, list[str], dict[str, str | None], bool]]:
        return BootstrapCommand, self._fields()


def default_bootstrap_cmd() -> BootstrapCommand:
    """The command that workers are started with where nothing else is asked for: this interpreter, with our module.

    Raises `RuntimeError` where the interpreter does not know its own path.
    """
    if not sys.executable:
        raise RuntimeError("cannot start processes: sys.executable is empty, so the interpreter's path is not known")
    return BootstrapCommand(sys.executable, None, ["-m", WORKER_MODULE])
