"""Older path of public names."""

from monarch._actor.bootstrap_command import BootstrapCommand as BootstrapCommand
