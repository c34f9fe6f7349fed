"""Hosts: their programs, their attachment, and how processes are started on them."""
