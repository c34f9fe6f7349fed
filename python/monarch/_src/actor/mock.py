"""Older path of public names."""

from monarch._actor.mock import patch_actor as patch_actor
from monarch._actor.mock import patch_tensor_engine as patch_tensor_engine
