"""Older paths of public names. Re-exports only."""
