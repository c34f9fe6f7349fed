"""Older path of public names."""

from functools import partial

from monarch._actor.shape import Extent as Extent
from monarch._actor.shape import NDSlice as NDSlice
from monarch._actor.shape import Point as Point
from monarch._actor.shape import Region as Region
from monarch._actor.shape import Shape as Shape
from monarch._actor.shape import Slice as Slice
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
