"""What the tests of this folder tried, counted by the tests themselves: ``docs/robustness.md`` is made of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs" / "robustness.md"
WANTED: Final = "GPUDIAG_ROBUSTNESS"
"""Name of the variable that holds the file into which a run writes what it counted."""
BEGIN: Final = "<!-- made by scripts/robustness from a run of the tests; not to be edited -->"
END: Final = "<!-- end -->"
_ROW: Final = re.compile(r"\| (?P<what>[^|]+) \| (?P<tried>[\d,]+) \| (?P<seen>[^|]+) \| `(?P<test>[^|`]+)` \|")

AREAS: Final[Mapping[str, str]] = {
    "bundle": "Bundles",
    "parse": "Parsers and the shell reader",
    "output": "Outputs",
    "rules": "Rule packs",
    "privacy": "Privacy",
    "kill": "The plan and its script",
    "collect": "The collector",
    "supply": "What gpudiag is made of",
}
"""A test is about the area that its file is named after."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    tried: int
    seen: str
    test: str
    """File and function that counted it."""


@dataclass
class Record:
    """Collects rows; a class is counted by one test, and all its cases together are one row."""

    rows: dict[str, Row] = field(default_factory=lambda: dict[str, Row]())

    def add(self, what: str, tried: int, seen: str, test: str) -> None:
        """Several calls of one class add up; what was seen is that of the last one."""
        assert any(test.startswith(f"test_{area}") for area in AREAS), f"{test} is of no area of the table"
        before = self.rows.get(what)
        assert before is None or before.test == test, f"{what!r} is counted by {before and before.test} and by {test}"
        self.rows[what] = Row(what, tried + (before.tried if before is not None else 0), seen, test)


class Writer:
    """Writes the record down at the end of a run, where that is wanted."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def pytest_sessionfinish(self) -> None:
        target = os.environ.get(WANTED)
        if target:
            rows = [vars(row) for row in self._record.rows.values()]
            Path(target).write_text(json.dumps(rows, indent=1), encoding="utf-8")


def name_of(item: pytest.Item) -> str:
    """``test_bundles.py::test_cut``: without folder and without parameters."""
    return f"{item.path.name}::{getattr(item, 'originalname', item.name)}"


def read_table(text: str) -> dict[str, Row]:
    """The rows of the document, by class."""
    body = text.partition(BEGIN)[2].partition(END)[0]
    found = (_ROW.match(line) for line in body.split("\n"))
    return {
        match["what"]: Row(match["what"], int(match["tried"].replace(",", "")), match["seen"], match["test"])
        for match in found
        if match is not None
    }


def table(rows: Mapping[str, Row]) -> str:
    """The rows as Markdown, area by area."""
    lines: list[str] = []
    for area, title in AREAS.items():
        own = [row for row in rows.values() if row.test.startswith(f"test_{area}")]
        if own:
            lines += [
                f"### {title}",
                "",
                "| what was done to it | tried | what was seen | by |",
                "| --- | --- | --- | --- |",
            ]
            lines += [f"| {row.what} | {row.tried:,} | {row.seen} | `{row.test}` |" for row in own]
            lines.append("")
    return "\n".join(lines)


def with_table(text: str, rows: Mapping[str, Row]) -> str:
    """The document with another table in it."""
    head, tail = text.partition(BEGIN)[0], text.partition(END)[2]
    return f"{head}{BEGIN}\n\n{table(rows)}\n{END}{tail}"


def main() -> None:
    """Put what ``GPUDIAG_ROBUSTNESS`` names into the document."""
    rows = [Row(**row) for row in json.loads(Path(os.environ[WANTED]).read_text(encoding="utf-8"))]
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(with_table(text, {row.what: row for row in rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
