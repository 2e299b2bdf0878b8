"""Every case of every rule: raw evidence through the whole pipeline gives the answer that the rule's file states."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.rules.loader import load_rules
from gpudiag.rules.schema import Case, Rule
from gpudiag.selftest import run_case

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = [
    pytest.param(rule, case, id=f"{rule.id}-{case.expect}-{case.name}") for rule in load_rules() for case in rule.cases
]


@pytest.mark.parametrize(("rule", "case"), CASES)
def test_case(rule: Rule, case: Case) -> None:
    assert run_case(rule, case, FIXTURES).got == case.expect
