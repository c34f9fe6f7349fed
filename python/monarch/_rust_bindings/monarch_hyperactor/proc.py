"""Older path of public names."""

from monarch._actor.identity import ActorAddr as ActorAddr
from monarch._actor.identity import ProcId as ProcId
from monarch._actor.identity import Uid as Uid

ActorId = ActorAddr
