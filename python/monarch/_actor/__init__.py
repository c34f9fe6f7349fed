"""The implementation of the actor API. Private: import from `monarch.actor`."""
