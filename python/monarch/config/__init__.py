"""Settings: every key has a type, a default and an environment variable; what the code sets wins over both.

`configure(cleanup_timeout="10s")` sets keys of this process for what is made afterwards; workers that are started later
inherit what is set. `explain()` lists all keys with their values and says where each value comes from.
"""

from __future__ import annotations

from ._kinds import Encoding
from ._values import (
    Setting,
    clear_runtime_config,
    configure,
    configured,
    explain,
    get_global_config,
    get_runtime_config,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._parametrize import parametrize_config, parametrize_config_pointwise

__all__ = [
    "Encoding",
    "Setting",
    "clear_runtime_config",
    "configure",
    "configured",
    "explain",
    "get_global_config",
    "get_runtime_config",
    "parametrize_config",
    "parametrize_config_pointwise",
]


def __getattr__(name: str) -> object:
    # These need pytest.
    if name in ("parametrize_config", "parametrize_config_pointwise"):
        from . import _parametrize

        return getattr(_parametrize, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
