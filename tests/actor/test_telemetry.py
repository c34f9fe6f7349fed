"""Spans and measurements: with OpenTelemetry, and without."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import marked_environment

WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from monarch.actor import get_meter, span, traced

def plain(): pass
async def coroutine(): pass
assert traced(plain) is plain
assert traced(name="x")(coroutine) is coroutine
with span("x"):
    meter = get_meter()
    meter.create_counter("c").add(1, {"a": 1})
    meter.create_up_down_counter("u").add(-1)
    meter.create_histogram("h").record(0.5)
try:
    meter.nothing
except AttributeError as error:
    print(error)
"""


def test_without_opentelemetry_they_cost_nothing() -> None:
    environment, _ = marked_environment()
    done = subprocess.run([sys.executable, "-c", WITHOUT], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (
        "without OpenTelemetry there is no 'nothing' here: install opentelemetry-api\n",
        "",
    )


@pytest.fixture(scope="module")
def provider() -> Iterator[Any]:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.trace import set_tracer_provider

    provider = trace.TracerProvider()
    set_tracer_provider(provider)
    yield provider


@pytest.fixture
def spans(provider: Any) -> list[Any]:
    from opentelemetry.sdk.trace import SpanProcessor

    ended: list[Any] = []

    class Keep(SpanProcessor):
        def on_end(self, span: Any) -> None:
            ended.append(span)

    provider.add_span_processor(Keep())
    return ended


def test_a_span_names_the_actor_whose_work_it_is(spans: list[Any]) -> None:
    from monarch.actor import context, span

    context()
    with span("work"):
        pass
    assert [(s.name, s.attributes["monarch.actor"]) for s in spans] == [("work", "<root>")]


def test_functions_are_traced_under_their_names(spans: list[Any]) -> None:
    from monarch.actor import traced

    @traced
    def plain(n: int) -> int:
        return n + 1

    @traced(name="other")
    async def coroutine(n: int) -> int:
        return n + 2

    assert (plain(1), asyncio.run(coroutine(1))) == (2, 3)
    assert [s.name for s in spans] == ["plain", "other"]


def test_a_call_of_an_endpoint_is_a_span_unless_it_says_not(spans: list[Any]) -> None:
    from monarch.actor import this_proc
    from traced_actors import Traced

    traced = this_proc().spawn("t", Traced)
    assert traced.seen.call_one().get(timeout=20) == 1
    assert traced.seen_async.call_one().get(timeout=20) == 2
    assert traced.unseen.call_one().get(timeout=20) == 3
    traced.stop().get(timeout=20)
    assert [s.name for s in spans] == ["t.seen", "t.seen_async"]


def test_the_meter_is_opentelemetrys() -> None:
    metrics = pytest.importorskip("opentelemetry.metrics")
    from monarch.actor import get_meter

    assert isinstance(get_meter(), metrics.Meter)
    get_meter().create_counter("c").add(1)
