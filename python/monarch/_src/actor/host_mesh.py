"""Older path of public names."""

from monarch._actor.bootstrap_command import default_bootstrap_cmd as default_bootstrap_cmd
from monarch._actor.context import this_host as this_host
from monarch._actor.host_mesh import HostMesh as HostMesh
