"""`unhandled_fault_hook`: what happens to a failure that nobody handled."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from monarch._actor.failure import MeshFailure

_HINT = (
    "hint: to go on after a failure, set `monarch.actor.unhandled_fault_hook` to a function that returns, or spawn\n"
    "      the mesh in an actor whose `__supervise__` returns True for failures that it handles"
)


class UnhandledFaultHookException(Exception):
    """The program's own `unhandled_fault_hook` raised: its `__cause__`. That makes the failure fatal."""


def unhandled_fault_hook(failure: MeshFailure) -> None:
    """Print what failed and end the program with exit status 1.

    Replace `monarch.actor.unhandled_fault_hook` to do something else. It is called with each `MeshFailure` that reaches
    the program itself, on a thread of its own. When it returns, the failure is forgotten; when it raises, whatever that
    is, the program ends.
    """
    import os
    import sys

    from monarch._actor.failure import UnhandledFailure

    where = f"{os.uname().nodename}, pid {os.getpid()}"
    print(
        f"monarch: a failure that nobody handled ends the program ({where})\n{failure.report()}\n\n{_HINT}",
        file=sys.stderr,
    )
    sys.stderr.flush()
    raise UnhandledFailure(failure)
