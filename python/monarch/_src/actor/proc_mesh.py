"""Older path of public names."""

from functools import partial

from monarch._actor.proc_mesh import ProcMesh as ProcMesh
from monarch._actor.proc_mesh_hooks import get_active_proc_meshes as get_active_proc_meshes
from monarch._actor.proc_mesh_hooks import register_proc_mesh_spawn_callback as register_proc_mesh_spawn_callback
from monarch._actor.proc_mesh_hooks import unregister_proc_mesh_spawn_callback as unregister_proc_mesh_spawn_callback
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
