"""The catalogue's own test: every rule's cases, as raw evidence, through everything that real evidence goes through."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpudiag.evidence import Unreadable
from gpudiag.explain import Pack, explain_fully
from gpudiag.rules.cases import lay_out
from gpudiag.rules.files import data_dir
from gpudiag.rules.loader import PACK_RANGE
from gpudiag.rules.schema import Case, Rule


@dataclass(frozen=True)
class CaseResult:
    """One case and what its rule said."""

    rule: Rule
    case: Case
    got: str
    """``fires``, ``quiet`` or ``unknown``; otherwise the sentence that says why there is no answer."""

    @property
    def passed(self) -> bool:
        """The rule gave the answer that the case expects."""
        return self.got == self.case.expect


def run_case(rule: Rule, case: Case, fixtures: Path) -> CaseResult:
    """Explain the case's evidence and see what the rule answered."""
    with tempfile.TemporaryDirectory(prefix="gpudiag-case-") as scratch:
        try:
            pack = (rule,) if rule.id[3] in PACK_RANGE else ()
            results = explain_fully([lay_out(case, fixtures, Path(scratch))], pack=Pack(pack)).verdict.results
        except OSError as problem:
            return CaseResult(rule, case, f"no answer: {problem.filename!r} cannot be read: {problem.strerror}.")
        except (Unreadable, ValueError) as problem:
            return CaseResult(rule, case, f"no answer: {problem}")
    return CaseResult(rule, case, next(result.answer for result in results if result.rule.id == rule.id))


def run_cases(rules: Sequence[Rule], fixtures: Path | None) -> Iterator[CaseResult]:
    """Every case of these rules, one after the other; without ``fixtures`` only those that hold their evidence."""
    return (
        run_case(rule, case, fixtures or Path())
        for rule in rules
        for case in rule.cases
        if fixtures is not None or case.transcript is not None
    )


def left_out(rules: Sequence[Rule], fixtures: Path | None) -> int:
    """How many cases ``run_cases`` passes over."""
    return 0 if fixtures is not None else sum(case.transcript is None for rule in rules for case in rule.cases)


def usual_fixtures() -> Path | None:
    """Where the inputs of the shipped rules' cases lie: beside the rules in a checkout, nowhere in a package."""
    found = data_dir().parent / "tests" / "fixtures"
    return found if found.is_dir() else None
