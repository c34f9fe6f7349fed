"""Decorators for pytest: a test that runs once for each of several configurations."""

from __future__ import annotations

import functools
import inspect
import itertools

import pytest

from ._values import configured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def parametrize_config(**values: Sequence[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test under every combination: `@parametrize_config(prefix_with_rank=[True, False])`."""
    return _parametrize(list(values), list(itertools.product(*values.values())))


def parametrize_config_pointwise(**values: Sequence[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test under the first value of every key, under the second ones, and so on.

    Raises `ValueError` where keys have different numbers of values.
    """
    lengths = {name: len(sequence) for name, sequence in values.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"every key needs the same number of values, not {lengths}")
    return _parametrize(list(values), list(zip(*values.values())))


def _parametrize(names: list[str], cases: list[tuple[Any, ...]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    parameter = f"config_of_{'_'.join(names)}"  # unlike that of another decorator on the same test
    ids = ["-".join(f"{name}={value}" for name, value in zip(names, case)) for case in cases]

    def decorate(test: Callable[..., Any]) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> Any:
            with configured(**dict(zip(names, kwargs.pop(parameter)))):
                return test(*args, **kwargs)

        @functools.wraps(test)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            with configured(**dict(zip(names, kwargs.pop(parameter)))):
                return await test(*args, **kwargs)

        wrapper: Any = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        added = inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY)
        wrapper.__signature__ = signature.replace(parameters=[*signature.parameters.values(), added])
        return pytest.mark.parametrize(parameter, cases, ids=ids)(wrapper)

    return decorate
