"""Jobs: where a program's hosts come from. `job.state()` makes sure that they are there and connects to them."""

from __future__ import annotations

from monarch.job._local import LocalJob
from monarch.job._process import ProcessJob
from monarch.job._state import JobState
from monarch.job._trait import DEFAULT_JOB_PATH, JobTrait, job_load, job_loads

__all__ = [
    "DEFAULT_JOB_PATH",
    "JobState",
    "JobTrait",
    "LocalJob",
    "ProcessJob",
    "job_load",
    "job_loads",
]

_LATER = ("BatchJob", "KubernetesJob", "LoginJob", "MASTJob", "SPMDJob", "SSHJob", "SkyPilotJob", "SlurmJob")


def __getattr__(name: str) -> object:
    if name in _LATER:
        raise ImportError(
            f"monarch.job.{name} is not part of this version. Start `monarch worker` on the hosts of an allocation, "
            "and give their addresses to monarch.actor.attach_to_workers (docs/clusters.md)"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
