"""Older path of public names."""

from monarch._actor.actor_mesh import ActorMesh as ActorMesh
from monarch._actor.context import Context as Context
from monarch._actor.context import Instance as Instance
from monarch._actor.context import _context as _context
from monarch._actor.context import context as context
