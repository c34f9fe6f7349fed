"""Older path of public names."""

from monarch._actor.endpoint import Endpoint as Endpoint
from monarch._actor.endpoint import EndpointProperty as EndpointProperty
from monarch._actor.shape import Extent as Extent
