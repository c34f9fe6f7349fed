"""Older path of public names."""

from functools import partial

from monarch._actor.ports.port_ref import PortRef as PortRef
from monarch._actor.undeliverable import PortId as PortId
from monarch._actor.undeliverable import UndeliverableMessageEnvelope as UndeliverableMessageEnvelope
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
