"""`concurrent_endpoint` by itself."""

from monarch._actor.endpoint import concurrent_endpoint

__all__ = ["concurrent_endpoint"]
