"""The decorators that run a test under several configurations."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from monarch.config import get_runtime_config, parametrize_config, parametrize_config_pointwise

seen: list[dict[str, object]] = []


@parametrize_config(tail_log_lines=[1, 2], prefix_with_rank=[True, False])
def test_a_test_runs_under_every_combination() -> None:
    seen.append(get_runtime_config())


def test_there_were_four_of_them() -> None:
    pairs = [(lines, ranks) for lines in (1, 2) for ranks in (True, False)]
    assert seen == [{"tail_log_lines": lines, "prefix_with_rank": ranks} for lines, ranks in pairs]


@parametrize_config_pointwise(tail_log_lines=[1, 2], cleanup_timeout=["1s", "2s"])
def test_pointwise_takes_the_values_in_lockstep(tmp_path: object) -> None:
    lines = get_runtime_config()["tail_log_lines"]
    assert get_runtime_config() == {"tail_log_lines": lines, "cleanup_timeout": f"{lines}s"}
    assert tmp_path is not None, "fixtures still work"


def test_pointwise_needs_as_many_values_of_every_key() -> None:
    with pytest.raises(ValueError, match="same number"):
        parametrize_config_pointwise(tail_log_lines=[1, 2], cleanup_timeout=["1s"])


def test_a_coroutine_stays_one_and_runs_configured() -> None:
    @parametrize_config(tail_log_lines=[5])
    async def run() -> object:
        await asyncio.sleep(0)
        return get_runtime_config()

    assert inspect.iscoroutinefunction(run)
    assert asyncio.run(run(config_of_tail_log_lines=(5,))) == {"tail_log_lines": 5}
