"""Older path of public names."""

from monarch._actor.proc_mesh import ProcMesh as ProcMesh
