"""Older path of public names."""

from functools import partial

from monarch._actor.identity import ActorAddr as ActorAddr
from monarch._actor.identity import ActorAddr as ActorId  # noqa: F401 (an older name)
from monarch._actor.identity import ProcId as ProcId
from monarch._actor.identity import Uid as Uid
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
