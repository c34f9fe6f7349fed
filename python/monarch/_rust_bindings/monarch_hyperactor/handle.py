"""Older path of public names."""

from monarch._actor.errors import WouldBlockRuntime as WouldBlockRuntime
