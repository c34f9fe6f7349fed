"""Messages of one sender arrive in the order in which it sent them, whatever the mix of views, copies and adverbs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monarch.actor import ProcMesh, this_proc
from property_actors import ADVERBS, VIEWS, AsyncLog, Log, Sender, Step, follow

delays = st.sampled_from([0.0] * 8 + [0.0001, 0.001])
plans = st.lists(
    st.builds(Step, st.sampled_from(list(VIEWS)), st.booleans(), st.sampled_from(ADVERBS), delays), max_size=40
)

# The processes and actors are the same for all examples.
shared = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


def expected(plan: list[Step], rank: int) -> list[int]:
    return [number for number, step in enumerate(plan) if rank in VIEWS[step.view][1]]


@pytest.fixture(scope="module", params=[Log, AsyncLog])
def log(grid: ProcMesh, request: pytest.FixtureRequest) -> Any:
    return grid.spawn("log", request.param)


@pytest.fixture(scope="module")
def senders(grid: ProcMesh) -> dict[str, Any]:
    """Beside the receivers, in the process of one of them, and in the program's."""
    return {
        "here": this_proc().spawn("sender", Sender),
        "in process 0": grid.slice(row=0, col=0).spawn("sender", Sender),
        "in process 3": grid.slice(row=1, col=1).spawn("sender", Sender),
    }


def keeps_order(log: Any, senders: dict[str, Any], by_sender: dict[str, list[Step]]) -> None:
    running = [senders[name].follow.call_one(plan, log, name) for name, plan in by_sender.items() if name in senders]
    follow(by_sender["the program"], log, "the program")
    for follower in running:
        follower.get(timeout=60)
    # Asked by each sender would be after all it sent; what comes from here is after only this program's own messages,
    # so each sender has waited for the last of its own.
    for rank, seen in enumerate(log.take.call().get(timeout=60).values()):
        for name, plan in by_sender.items():
            assert [number for sender, number in seen if sender == name] == expected(plan, rank), (name, rank)


NAMES = ("the program", "here", "in process 0", "in process 3")
mixes = st.fixed_dictionaries({name: plans.map(lambda plan: [*plan, LAST]) for name in NAMES})
LAST = Step("all", False, "call", 0.0)  # waited for, so that everything before it has arrived


@settings(shared, max_examples=15, derandomize=True)
@given(mixes)
def test_each_senders_messages_arrive_in_order(log: Any, senders: Any, by_sender: dict[str, list[Step]]) -> None:
    keeps_order(log, senders, by_sender)


@pytest.mark.long
@pytest.mark.timeout(600)
@settings(shared, max_examples=500)
@given(mixes)
def test_each_senders_messages_arrive_in_order_in_many_mixes(
    log: Any, senders: Any, by_sender: dict[str, list[Step]]
) -> None:
    keeps_order(log, senders, by_sender)
