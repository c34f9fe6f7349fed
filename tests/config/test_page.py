"""`docs/configuration.md` says what the table of keys says."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from monarch.config._table import KEYS, Key

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def row_of(key: Key) -> str:
    default = key.default.name if isinstance(key.default, Enum) else f"`{key.default}`" if key.default != "" else '`""`'
    return f"| `{key.name}` | {key.kind.name} | {default} | `{key.variable}` | {key.doc} |"


def test_the_page_has_every_key_in_the_section_that_it_belongs_to() -> None:
    with_effect, without_effect = PAGE.read_text().split("## Keys without effect here")
    for section, has_effect in ((with_effect, True), (without_effect, False)):
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        assert rows == [row_of(key) for key in KEYS.values() if key.has_effect is has_effect]
