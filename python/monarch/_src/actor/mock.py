"""Older path of public names."""

from functools import partial

from monarch._actor.mock import patch_actor as patch_actor
from monarch._actor.mock import patch_tensor_engine as patch_tensor_engine
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
