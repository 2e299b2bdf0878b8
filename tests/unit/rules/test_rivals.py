"""How far another cause is out of the running beside a finding."""

from __future__ import annotations

from typing import Any

import pytest

from gpudiag.rules.engine import RuleResult, evaluate
from gpudiag.rules.rivals import judge_rivals
from tests.unit.rules.facts import rule, table

CERTAINTIES: dict[str, dict[str, Any]] = {"proven": {"proven": []}, "inferred": {"inferred": []}, "possible": {}}
RIVAL_ROWS: dict[str, dict[str, Any]] = {
    "fires": {"selected": True, "family": "F1"},
    "fires elsewhere": {"selected": True, "family": "F2"},
    "fires without a family": {"selected": True},
    "quiet": {"selected": False},
    "unknown": {"selected": None},
    "unknown elsewhere": {"selected": None, "family": "F2"},
}


def rival(answer: str) -> RuleResult:
    tested = rule(
        id="GPD104",
        fires=[{"column": "selected", "op": "is", "value": True}],
        missing=[{"columns": ["selected"], "source": "open handles", "collect": "fuser"}],
    )
    return evaluate(tested, table("reach", [RIVAL_ROWS[answer]]))


def status(excluded_when: str, certainty: str, answer: str | None) -> tuple[str, str]:
    spec = {"rule": "GPD104", "excluded_when": excluded_when, "because": "Because."}
    tested = rule(rivals=[spec], **CERTAINTIES[certainty])
    (match,) = evaluate(tested, table("reach", [{"meant": True, "family": "F1"}])).matches
    (judged,) = judge_rivals(tested, match, {} if answer is None else {"GPD104": rival(answer)})
    assert judged.rule == "GPD104"
    return judged.status, judged.because


@pytest.mark.parametrize(
    ("excluded_when", "certainty", "answer", "expected"),
    [
        ("never", "proven", "quiet", "excluded"),
        ("never", "proven", "unknown", "open"),
        ("never", "proven", "fires", "open"),
        ("never", "proven", None, "open"),
        ("proven", "proven", None, "excluded"),
        ("proven", "proven", "unknown", "excluded"),
        ("proven", "proven", "fires", "open"),
        ("proven", "proven", "fires without a family", "open"),
        ("proven", "proven", "fires elsewhere", "excluded"),
        ("never", "possible", "fires elsewhere", "excluded"),
        ("never", "possible", "unknown elsewhere", "excluded"),
        # The rival may be quiet only because this finding says that its step did not run.
        ("proven", "inferred", "quiet", "less_likely"),
        ("proven", "inferred", "unknown", "less_likely"),
        ("proven", "inferred", "fires", "open"),
        ("proven", "possible", "quiet", "excluded"),
        ("proven", "possible", "unknown", "open"),
    ],
)
def test_status(excluded_when: str, certainty: str, answer: str | None, expected: str) -> None:
    assert status(excluded_when, certainty, answer)[0] == expected


def test_the_reason_says_what_it_rests_on() -> None:
    assert status("proven", "inferred", "quiet")[1] == "Because."
    assert status("never", "proven", "quiet")[1] == "It was tested and does not apply."
    assert status("never", "proven", "unknown")[1] == "There is too little evidence to test it: open handles. Because."
    assert status("never", "proven", None)[1] == "It is not tested. Because."
