"""Older path of public names."""

from functools import partial

from monarch._actor.python_task import PythonTask as PythonTask
from monarch._src._absent import absent_name

__getattr__ = partial(absent_name, __name__)
