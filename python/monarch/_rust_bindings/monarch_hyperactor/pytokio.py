"""Older path of public names."""

from monarch._actor.python_task import PythonTask as PythonTask
