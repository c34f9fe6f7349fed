"""What all tests share: the logs of the programs that they run are not put among the user's own."""

from __future__ import annotations

import os
import tempfile

_logs = tempfile.TemporaryDirectory(prefix="monarch-test-logs-", ignore_cleanup_errors=True)
os.environ["MONARCH_LOG_DIR"] = _logs.name
