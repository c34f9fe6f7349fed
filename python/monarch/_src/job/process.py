"""Older path of a public name."""

from monarch.job import ProcessJob as ProcessJob
