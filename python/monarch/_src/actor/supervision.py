"""Older path of public names."""

from functools import partial

from monarch._actor.failure import MeshFailure as MeshFailure
from monarch._actor.fault_hook import UnhandledFaultHookException as UnhandledFaultHookException
from monarch._actor.fault_hook import unhandled_fault_hook as unhandled_fault_hook
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
