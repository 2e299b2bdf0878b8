"""The transcripts of public reports: nobody is named wrongly, and everything that the expectation says holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudiag.explain import explain
from gpudiag.report.contract import Report
from tests.golden.shortfalls import shortfalls

TRANSCRIPTS = Path(__file__).parents[1] / "fixtures" / "transcripts"
NAMES = sorted(path.stem for path in TRANSCRIPTS.glob("*.txt"))
GAPS: dict[str, str] = {}
"""What is not right yet, and why. It may only shrink: a name that has become right fails."""


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """Every transcript, explained once."""
    return {name: explain([TRANSCRIPTS / f"{name}.txt"]) for name in NAMES}


def _expected(name: str) -> dict[str, Any]:
    return json.loads((TRANSCRIPTS / f"{name}.expect.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_named_wrongly(name: str, reports: dict[str, Report]) -> None:
    expected = _expected(name)
    planned = {entry.pid for entry in reports[name].plan.kill}
    assert not planned & set(expected.get("never_pids", ()))
    assert planned <= set(expected.get("kill_pids", ())) | set(expected.get("kill_optional", ()))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_is_said(name: str, reports: dict[str, Report]) -> None:
    expected, report = _expected(name), reports[name]
    assert not {finding.rule for finding in report.findings} & set(expected.get("rules_not", ()))
    problems = shortfalls(report, expected)
    if name in GAPS:
        assert problems, f"{name} is right now: take it off the list of gaps"
    else:
        assert problems == []


@pytest.mark.parametrize("name", NAMES)
def test_text_that_was_not_understood_is_shown(name: str, reports: dict[str, Report]) -> None:
    """Each place is named once, with the member and the line."""
    shown = [source.because or "" for source in reports[name].sources if source.source == "text"]
    assert len(set(shown)) == len(shown)
    assert all(because.startswith(f"{name}.txt from line ") for because in shown)
