"""`LocalJob`: this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from monarch.actor import this_host
from monarch.job._state import JobState
from monarch.job._trait import JobTrait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LOG_DIRECTORY = ".monarch/logs"


class LocalJob(JobTrait):
    """Every name of `hosts` is the host of this program. Nothing is reused, and nothing outlives the program."""

    def __init__(self, hosts: Sequence[str] = ("hosts",)) -> None:
        super().__init__()
        self._names = tuple(hosts)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The program that `apply(client_script)` started; raises `ValueError` where there is none."""
        if self._process is None:
            raise ValueError("this job has started no program: that takes apply(client_script=...)")
        return self._process

    def can_run(self, spec: JobTrait) -> bool:
        return False

    def _create(self, client_script: str | None) -> None:
        if client_script is None:
            return
        os.makedirs(LOG_DIRECTORY, exist_ok=True)
        logs = tempfile.mkdtemp(prefix="job_", dir=LOG_DIRECTORY)
        with open(os.path.join(logs, "stdout.log"), "wb") as out, open(os.path.join(logs, "stderr.log"), "wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, client_script],
                env={**os.environ, "MONARCH_BATCH_JOB": "1"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def _state(self) -> JobState:
        return JobState({name: this_host() for name in self._names})

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def _outlives_program(self) -> bool:
        return False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process": None}
