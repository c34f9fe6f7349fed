"""Older path of public names."""

from monarch._actor.future import Future as Future
