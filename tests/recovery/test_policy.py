"""What a restart policy allows, by its numbers alone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from monarch._actor.recovery.policy import RestartBudget
from monarch.actor import RestartPolicy


def test_each_restart_waits_twice_as_long_up_to_the_upper_bound() -> None:
    budget = RestartBudget(RestartPolicy(max_restarts=6, backoff=(1, 10)))
    assert [budget.spend(now) for now in range(6)] == [1, 2, 4, 8, 10, 10]


def test_no_further_restart_within_the_window() -> None:
    budget = RestartBudget(RestartPolicy(max_restarts=2, window_s=60))
    assert [budget.spend(now) is None for now in (0, 10, 20, 59)] == [False, False, True, True]


def test_restarts_older_than_the_window_do_not_count() -> None:
    budget = RestartBudget(RestartPolicy(max_restarts=2, window_s=60, backoff=(1, 10)))
    assert [budget.spend(now) for now in (0, 30, 60, 61, 90)] == [1, 2, 2, None, 2]


def test_many_restarts_do_not_overflow_the_backoff() -> None:
    budget = RestartBudget(RestartPolicy(max_restarts=5000, backoff=(0.5, 3)))
    assert [budget.spend(0) for _ in range(5000)][-1] == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"strategy": "rest_for_one"},
        {"max_restarts": -1},
        {"window_s": 0},
        {"backoff": (2, 1)},
        {"backoff": (-1, 1)},
        {"backoff": (0, float("inf"))},
    ],
)
def test_senseless_values_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        RestartPolicy(**fields)


def test_a_policy_travels() -> None:
    policy = pickle.loads(pickle.dumps(RestartPolicy("all_for_one", 7, 8.5, (0.5, 9))))
    assert repr(policy) == "RestartPolicy(strategy='all_for_one', max_restarts=7, window_s=8.5, backoff=(0.5, 9))"
