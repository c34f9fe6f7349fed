"""Older path of public names."""

from functools import partial

from monarch._src._absent import absent_name
from monarch.config import configure as configure
from monarch.config import get_global_config as get_global_config

__getattr__ = partial(absent_name, __name__)
