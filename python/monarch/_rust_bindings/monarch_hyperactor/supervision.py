"""Older path of public names."""

from monarch._actor.errors import SupervisionError as SupervisionError
from monarch._actor.failure import MeshFailure as MeshFailure
