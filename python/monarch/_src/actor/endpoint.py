"""Older path of public names."""

from functools import partial

from monarch._actor.endpoint import Endpoint as Endpoint
from monarch._actor.endpoint import EndpointProperty as EndpointProperty
from monarch._actor.shape import Extent as Extent
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
