"""Older path of public names."""

from monarch._actor.endpoint import ValueStream as ValueStream
