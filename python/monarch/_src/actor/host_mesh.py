"""Older path of public names."""

from functools import partial

from monarch._actor.bootstrap_command import default_bootstrap_cmd as default_bootstrap_cmd
from monarch._actor.context import this_host as this_host
from monarch._actor.host_mesh import HostMesh as HostMesh
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
