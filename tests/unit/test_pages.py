"""Pages that say what holds name tests: they have to be there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("page", "at_least"), [("supervision.md", 40), ("actors.md", 25)])
def test_every_test_that_the_page_names_exists(page: str, at_least: int) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text()))
    sources = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    defined = {name for source in sources for name in re.findall(r"^ *def (test_\w+)\(", source, re.MULTILINE)}
    assert len(named) >= at_least
    assert named <= defined
