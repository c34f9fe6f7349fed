"""Older path of public names."""

from monarch._actor.context import this_host as this_host
from monarch._actor.host_mesh import HostMesh as HostMesh
