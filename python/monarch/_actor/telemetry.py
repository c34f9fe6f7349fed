"""Spans and measurements go to OpenTelemetry's API where that package is installed; elsewhere they cost nothing."""

from __future__ import annotations

import sys

from monarch._actor.context import _context
from monarch._actor.generics import ParamSpec, TypeVar, overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

P = ParamSpec("P")
R = TypeVar("R")

SCOPE = "monarch"


def span(name: str) -> AbstractContextManager[object]:
    """`with span("step"):` traces what runs inside, as work of the current actor."""
    trace = _opentelemetry("trace")
    if trace is None:
        return _NOTHING
    current = _context.get()
    attributes = {"monarch.actor": repr(current.actor_instance)} if current is not None else None
    traced_part: AbstractContextManager[object] = trace.get_tracer(SCOPE).start_as_current_span(
        name, attributes=attributes
    )
    return traced_part


@overload
def traced(fn: Callable[P, R], *, name: str | None = None) -> Callable[P, R]: ...
@overload
def traced(*, name: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...  # noqa: F811 (see `generics`)
def traced(fn: Any = None, *, name: str | None = None) -> Any:  # noqa: F811
    """A span around each call of a function, sync or async; it has the function's name unless another is given."""
    if fn is None:
        return lambda fn: traced(fn, name=name)
    if _opentelemetry("trace") is None:
        return fn
    return _in_spans(fn, name or fn.__name__)


def get_meter() -> Any:
    """OpenTelemetry's `Meter` of this package; without that package one whose instruments do nothing."""
    metrics = _opentelemetry("metrics")
    return metrics.get_meter(SCOPE) if metrics is not None else _Nothing()


def instrumented(method: Callable[..., Any], label: str) -> Callable[..., Any]:
    """An endpoint's method, in spans where this process has loaded OpenTelemetry."""
    return _in_spans(method, label) if "opentelemetry.trace" in sys.modules else method


def _in_spans(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    import functools
    import inspect

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            with span(name):
                return await function(*args, **kwargs)

        return run_async

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with span(name):
            return function(*args, **kwargs)

    return run


def _opentelemetry(part: str) -> Any:
    """A module of OpenTelemetry's API, None where it is not installed."""
    name = f"opentelemetry.{part}"
    if name not in _modules:
        import importlib

        try:
            _modules[name] = importlib.import_module(name)
        except ImportError:
            _modules[name] = None
    return _modules[name]


class _Nothing:
    """Stands for a span, a meter or an instrument: takes anything and does nothing."""

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("create_"):
            return lambda *args, **kwargs: self
        if name in ("add", "record", "set"):
            return _ignore
        raise AttributeError(f"without OpenTelemetry there is no {name!r} here: install opentelemetry-api")


def _ignore(*args: object, **kwargs: object) -> None:
    pass


_NOTHING = _Nothing()
_modules: dict[str, Any] = {}
