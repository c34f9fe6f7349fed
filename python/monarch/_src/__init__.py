"""Older paths of public names. Re-exports only."""

from monarch._src import _absent

_absent.install()
