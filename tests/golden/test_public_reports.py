"""Twenty transcripts after public reports, written without the engine at hand: what it says of cases it has not seen.

``GAPS`` holds what is not right yet, each with what is missing. It may only shrink: a name that has become right fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudiag.explain import explain
from gpudiag.report.contract import Report
from tests.golden.shortfalls import shortfalls

PUBLIC = Path(__file__).parents[1] / "fixtures" / "public"
NAMES = sorted(path.stem for path in PUBLIC.glob("*.txt"))
GAPS: dict[str, str] = {}


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """Every transcript, explained once."""
    return {name: explain([PUBLIC / f"{name}.txt"]) for name in NAMES}


def _expected(name: str) -> dict[str, Any]:
    return json.loads((PUBLIC / f"{name}.expect.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_wrong_is_said(name: str, reports: dict[str, Report]) -> None:
    expected, report = _expected(name), reports[name]
    planned = {entry.pid for entry in report.plan.kill}
    assert planned <= {*expected["kill_pids"], *expected.get("kill_optional", ())}
    assert not planned & set(expected["never_pids"])
    assert not {finding.rule for finding in report.findings} & set(expected["rules_not"])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_is_said(name: str, reports: dict[str, Report]) -> None:
    problems = shortfalls(reports[name], _expected(name))
    if name in GAPS:
        assert problems, f"{name} is right now: take it off the list of gaps"
    else:
        assert problems == []


def test_gaps_name_cases() -> None:
    assert GAPS.keys() <= set(NAMES)
