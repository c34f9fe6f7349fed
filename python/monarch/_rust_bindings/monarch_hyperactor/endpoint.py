"""Older path of public names."""

from functools import partial

from monarch._actor.endpoint import ValueStream as ValueStream
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
