"""Older path of public names."""

from monarch._actor.shape import Extent as Extent
from monarch._actor.shape import Point as Point
from monarch._actor.shape import Region as Region
from monarch._actor.shape import Shape as Shape
from monarch._actor.shape import Slice as Slice
