"""Older path of public names."""

from functools import partial

from monarch._actor.errors import WouldBlockRuntime as WouldBlockRuntime
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
