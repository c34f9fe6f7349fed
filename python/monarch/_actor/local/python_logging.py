"""Python's `logging` where actors run: messages say which actor they are from, and show without any set-up."""

from __future__ import annotations

import logging
import sys

from monarch._actor import context
from monarch.actor import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Whether that is done; somebody may have put a factory of their own around ours since.
_names = False

FORMAT = "%(levelname)s %(name)s: %(message)s"


def set_up_worker(level: int | None) -> None:
    """In a worker: show what is logged from `level` on (None: INFO), where the program installs no handlers."""
    logging.getLogger().setLevel(logging.INFO if level is None else level)
    handler = _Stderr()
    handler.setFormatter(logging.Formatter(FORMAT))
    logging.lastResort = handler
    name_actors()


def name_actors() -> None:
    """Let every message that an actor of this process logs begin with its name, whatever handlers there are."""
    global _names
    if not _names:
        _names = True
        logging.setLogRecordFactory(_Naming(logging.getLogRecordFactory()))


class _Stderr(logging.Handler):
    """Writes to what `sys.stderr` is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr)
        except Exception:
            self.handleError(record)


class _Naming:
    """A factory of log records that names the actor in whose context they are made, except the program itself."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*args, **kwargs)
        current = context._context.get()
        if current is None or not config.prefix_python_logs_with_actor or record.msg == "":
            return record
        instance = current.actor_instance
        if instance.class_name is not None:  # the program has none
            prefix = f"[actor={instance!r}] "
            record.msg = (prefix.replace("%", "%%") if record.args else prefix) + str(record.msg)
        return record
