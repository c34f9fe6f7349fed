"""Older path of public names."""

from monarch._actor.hosts.attaching import attach_to_workers as attach_to_workers
from monarch._actor.hosts.worker_loop import run_worker_loop_forever as run_worker_loop_forever
