"""Older path of a public name."""

from monarch._actor.hosts.transport import ChannelTransport as ChannelTransport
