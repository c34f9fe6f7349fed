"""Older path of public names."""

from functools import partial

from monarch._actor.future import Future as Future
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
