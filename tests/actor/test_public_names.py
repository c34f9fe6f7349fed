"""The page on compatibility lists each public name, and says of none that it is there which is not."""

from __future__ import annotations

import re
from pathlib import Path

import monarch.actor
import monarch.spmd
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

# What torchmonarch 0.7 exports from `monarch.actor`, and `hosts_from_config`, which older material has.
EXPORTED = """
Accumulator Actor ActorError as_endpoint attach attach_to_workers Channel ChannelTransport concurrent_endpoint config
Context context current_actor_name current_rank current_size debug_controller default_bootstrap_cmd Endpoint endpoint
enable_transport Extent Future get_meter get_or_spawn_controller HostMesh MeshFailure Point Port PortReceiver ProcId
ProcMesh returns_future run_worker_loop_forever run_worker_loop_until_shutdown send shutdown_context span
start_worker_loop_forever this_host this_proc traced Uid unhandled_fault_hook ValueMesh hosts_from_config
"""
OF_TORCHMONARCH = EXPORTED.split()

HERE, ELSEWHERE = {"yes", "better", "partly"}, {"not yet", "no"}


def section(title: str) -> str:
    """The text under a heading."""
    found = re.search(rf"(?ms)^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"))
    assert found is not None, f"{PAGE.name} has no section {title!r}"
    return found.group(1)


def rows(title: str) -> dict[str, str]:
    """What the table under a heading says of each name."""
    lines = re.findall(r"(?m)^\| (`.*?`) \| ([^|]*?) \|", section(title))
    return {name: verdict for names, verdict in lines for name in re.findall(r"`([\w.]+)`", names)}


@pytest.fixture(scope="module")
def actor_rows() -> dict[str, str]:
    return rows("Exported by `monarch.actor`")


def test_each_name_of_torchmonarch_has_its_row_and_no_other_has(actor_rows: dict[str, str]) -> None:
    assert sorted(actor_rows) == sorted(OF_TORCHMONARCH)
    assert set(actor_rows.values()) <= HERE | ELSEWHERE


def test_what_the_page_says_is_there_is_there_and_nothing_else(actor_rows: dict[str, str]) -> None:
    there = {name for name, verdict in actor_rows.items() if verdict in HERE}
    assert there == {name for name in OF_TORCHMONARCH if name in monarch.actor.__all__}


def test_names_beyond_those_of_torchmonarch_are_listed() -> None:
    listed = set(re.findall(r"`(\w+)`", section("Also public here")))
    assert set(monarch.actor.__all__) - set(OF_TORCHMONARCH) <= listed


def test_all_public_names_can_be_imported() -> None:
    assert [name for name in monarch.actor.__all__ if not hasattr(monarch.actor, name)] == []


def test_the_names_of_spmd_are_listed() -> None:
    assert sorted(rows("Exported by `monarch.spmd`")) == sorted(monarch.spmd.__all__)
