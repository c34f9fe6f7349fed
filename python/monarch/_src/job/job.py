"""Older path of public names."""

from monarch.job import JobState as JobState
from monarch.job import JobTrait as JobTrait
from monarch.job import LocalJob as LocalJob
from monarch.job import job_load as job_load
