"""The captured incidents and what is true of each, read from the files beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[1] / "fixtures"


@dataclass(frozen=True)
class Incident:
    """One incident with its expectation; the keys are explained in ``tests/fixtures/README.md``."""

    name: str
    path: Path
    expected: dict[str, Any]

    def pids(self, key: str) -> set[int]:
        """A set of PIDs of the expectation."""
        return set(self.expected.get(key, ()))

    def names(self, key: str) -> set[str]:
        """A set of rule ids or kinds of the expectation."""
        return set(self.expected.get(key, ()))


def captures() -> list[Incident]:
    """Directories of raw tool output from a real GPU."""
    return [_load(file) for file in sorted((FIXTURES / "h200").glob("*.expect.json"))]


def transcripts() -> list[Incident]:
    """Pasted terminal text."""
    return [_load(file) for file in sorted((FIXTURES / "incidents").glob("*.expect.json"))]


def capture(name: str) -> Incident:
    """One capture by name."""
    return _load(FIXTURES / "h200" / f"{name}.expect.json")


def _load(file: Path) -> Incident:
    name = file.name.removesuffix(".expect.json")
    directory = file.parent / name
    path = directory if directory.is_dir() else directory.with_suffix(".txt")
    return Incident(name, path, json.loads(file.read_text()))
