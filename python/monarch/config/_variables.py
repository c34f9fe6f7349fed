"""Environment variables of ours: a name that nobody knows is mostly a slip."""

from __future__ import annotations

import os

from ._table import KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Those that are read elsewhere than in the table of keys.
_OTHERS = frozenset(
    (
        "MONARCH_ADMIN_URL",
        "MONARCH_AGENT",
        "MONARCH_BATCH_JOB",
        "MONARCH_CLIENT_TRACE_ID",
        "MONARCH_CLUSTER_KEY_FD",
        "MONARCH_CLUSTER_KEY_FILE",
        "MONARCH_DB_PATH",
        "MONARCH_DEBUG_SERVER_HOST",
        "MONARCH_DEBUG_SERVER_PORT",
        "MONARCH_DEBUG_SERVER_PROTOCOL",
        "MONARCH_ERROR_DURING_BOOTSTRAP_FOR_TESTING",
        "MONARCH_EXECUTION_ID",
        "MONARCH_EXPLAIN_STARTS",
        "MONARCH_GPU_PLATFORM",
        "MONARCH_HOME",
        "MONARCH_INSECURE_NETWORK",
        "MONARCH_MESH_ADMIN_CACERT",
        "MONARCH_MESH_ADMIN_CERT",
        "MONARCH_MESH_ADMIN_KEY",
        "MONARCH_MESH_ADMIN_PORT",
        "MONARCH_PACKAGE_NAME",
        "MONARCH_PORT",
        "MONARCH_PORTABLE",
        "MONARCH_PYTHON_LOG_TRACING",
        "MONARCH_SERVICE_PROC_IDS",
        "MONARCH_SERVICE_PROC_RANK",
        "MONARCH_SKIP_TRITON_DEEPBIND",
        "MONARCH_STDERR_LOG",
        "MONARCH_TRACE_DIR",
        "MONARCH_VERSION",
        "MONARCH_WORKER",
    )
)
# Several that belong together: what `exec` gives to programs, and what tests tell the programs that they run.
_FAMILIES = ("MONARCH_RANK_", "MONARCH_SIZE_", "MONARCH_TEST_")


def warn_of_unknown() -> None:
    """Warn of each variable that looks like ours and is none."""
    known = {key.variable for key in KEYS.values()} | _OTHERS
    unknown = [
        name
        for name in os.environ
        if name.startswith("MONARCH_") and name not in known and not name.startswith(_FAMILIES)
    ]
    for name in unknown:
        import warnings

        hint = nearest(name, known)
        meant = f"; did you mean {hint}?" if hint else ""
        warnings.warn(f"{name} is set, but Monarch has no such variable{meant}", UserWarning, stacklevel=2)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """What was probably meant."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), 1, 0.7)), None)
