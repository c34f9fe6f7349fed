"""`JobTrait`: what all jobs have in common: making an allocation, finding it again, and letting it go."""

from __future__ import annotations

import os
import pickle
import stat
import tempfile
import uuid
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import Final

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from monarch.job._state import JobState

DEFAULT_JOB_PATH: Final = ".monarch/job_state.pkl"


class _Default(str):
    """The default of `cached_path`, apart from the same path given by a user."""


class JobTrait(ABC):
    """An allocation of hosts: how to obtain it, and, once applied, a handle of it that can be pickled."""

    def __init__(self) -> None:
        self._apply_id: str | None = None

    # --- for users ----------------------------------------------------------------------------------------------------

    def apply(self, client_script: str | None = None) -> None:
        """Make the allocation, unless it is there. With a script, which runs in it on its own: batch mode."""
        if self.active:
            return
        self._create(client_script)
        self._apply_id = str(uuid.uuid4())

    def state(self, cached_path: str | None = _Default(DEFAULT_JOB_PATH)) -> JobState:
        """The hosts of the allocation: of this one, of one at `cached_path` that is alive and fits, or of a new one.

        With a path that is given, the allocation is written there and outlives the program; a job without a reason to
        outlive it ends with it. None neither looks for one nor writes one.
        """
        if cached_path is None:
            self.apply()
            return self._state()
        on_purpose = not isinstance(cached_path, _Default)
        if self.active:
            return self._state()
        with _locked(cached_path):
            running = _cached(cached_path)
            if running is not None and running.can_run(self):
                self.__dict__.update(running.__dict__)
                return self._state()
            if running is not None:
                running._kill()
                _forget(cached_path)
            self.apply()
            state = self._state()
            if on_purpose or self._outlives_program():
                self.dump(cached_path)
        return state

    def kill(self) -> None:
        """Let the allocation go, and end all that runs in it. Also on a job that was loaded from a file."""
        self._kill()
        self._apply_id = None

    def dump(self, filename: str) -> None:
        """Write the job to a file that only this user may read, so that another program can use the allocation."""
        self._keep()
        target = os.path.realpath(filename)  # through a link, which stays
        directory = os.path.dirname(target)
        os.makedirs(directory, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(pickle.dumps(self))
            os.replace(draft, target)
        except BaseException:
            os.unlink(draft)
            raise

    def dumps(self) -> bytes:
        """The job as bytes, as `job_loads` takes them."""
        self._keep()
        return pickle.dumps(self)

    @property
    def active(self) -> bool:
        """Whether there is an allocation, as far as this object knows."""
        return self._apply_id is not None

    @property
    def apply_id(self) -> str | None:
        """Identity of the allocation, new for each."""
        return self._apply_id

    # --- for those who write one --------------------------------------------------------------------------------------

    @abstractmethod
    def _create(self, client_script: str | None) -> None:
        """Make the allocation."""

    @abstractmethod
    def _state(self) -> JobState:
        """Connect to the allocation."""

    @abstractmethod
    def can_run(self, spec: JobTrait) -> bool:
        """Whether this allocation is alive and is what `spec` describes."""

    @abstractmethod
    def _kill(self) -> None:
        """Let the allocation go."""

    def _keep(self) -> None:  # noqa: B027 (most allocations outlive the program anyway)
        """The job is about to be written: from now on the allocation outlives the program."""

    def _outlives_program(self) -> bool:
        """Whether the allocation outlives the program although nobody has written the job."""
        return True


def job_load(filename: str = DEFAULT_JOB_PATH) -> JobTrait:
    """The job that was written to a file. Loading runs code that is in the file.

    Raises `FileNotFoundError` where it is not there, `PermissionError` where others than this user could have written
    it, `TypeError` where it holds no job.
    """
    with open(filename, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(
                1, f"refusing to load the job {filename!r}: others than this user could have written it"
            )
        return job_loads(file.read())


def job_loads(data: bytes) -> JobTrait:
    """The job that `dumps` made. Loading runs code that is in it. Raises `TypeError` where it holds no job."""
    job = pickle.loads(data)
    if not isinstance(job, JobTrait):
        raise TypeError(f"this is a pickled {type(job).__name__}, not a job")
    return job


def _cached(path: str) -> JobTrait | None:
    """The running job of a file; none where there is none that can be used."""
    try:
        job = job_load(path)
    except PermissionError:
        raise
    except Exception:
        # No file, or one of another version of a class: as good as none.
        return None
    return job if job.active else None


def _forget(path: str) -> None:
    target = os.path.realpath(path)
    if os.path.exists(target):
        os.unlink(target)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """One program at a time looks for the allocation of a file and makes one."""
    import fcntl

    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(f"{path}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
