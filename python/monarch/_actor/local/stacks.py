"""How this process tells what its threads are doing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from monarch._native import Runtime


def tell(runtime: Runtime, signal: int | None) -> None:
    """From now on this process tells its stacks: by `signal`, which is ignored otherwise, while it is busy."""
    descriptor = runtime.tell_stacks(_own_stacks, signal)
    if signal is not None and descriptor is not None:
        import faulthandler

        faulthandler.register(signal, file=descriptor, all_threads=True)


def _own_stacks() -> str:
    """The stacks of this process, as `faulthandler` writes them, with the names of the threads."""
    import sys
    import threading

    names = {thread.ident: thread.name for thread in threading.enumerate()}
    me = threading.get_ident()
    lines = []
    for ident, frame in sys._current_frames().items():
        if ident == me:
            continue
        lines.append(f"Thread {ident:#x} [{names.get(ident, '')}] (most recent call first):")
        caller: FrameType | None = frame
        while caller is not None:
            code = caller.f_code
            line = caller.f_lineno or code.co_firstlineno
            lines.append(f'  File "{code.co_filename}", line {line} in {code.co_name}')
            caller = caller.f_back
    return "\n".join(lines)
