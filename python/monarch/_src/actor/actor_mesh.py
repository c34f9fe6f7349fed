"""Older path of public names."""

from functools import partial

from monarch._actor.actor_mesh import ActorMesh as ActorMesh
from monarch._actor.context import Context as Context
from monarch._actor.context import CreatorInstance as CreatorInstance
from monarch._actor.context import Instance as Instance
from monarch._actor.context import _context as _context
from monarch._actor.context import context as context
from monarch._actor.ports.port import Port as Port
from monarch._actor.ports.receiver import PortReceiver as PortReceiver
from monarch._actor.ports.receiver import RankedPortReceiver as RankedPortReceiver
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
