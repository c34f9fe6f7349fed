"""Older path of public names."""

from monarch._actor.failure import MeshFailure as MeshFailure
from monarch._actor.fault_hook import unhandled_fault_hook as unhandled_fault_hook
