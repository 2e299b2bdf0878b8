"""What other causes would look alike, and how far each is out of the running beside one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gpudiag.rules.engine import Match, Row, RuleResult
from gpudiag.rules.schema import RivalSpec, Rule

Status = Literal["excluded", "less_likely", "open"]


@dataclass(frozen=True)
class RivalStatus:
    """One rival of one finding."""

    rule: str
    status: Status
    because: str


def judge_rivals(rule: Rule, match: Match, results: Mapping[str, RuleResult]) -> tuple[RivalStatus, ...]:
    """The rule's rivals beside this finding; ``results`` holds every rule's answer by id."""
    return tuple(_judge(spec, match, results.get(spec.rule)) for spec in rule.rivals)


def _judge(spec: RivalSpec, match: Match, result: RuleResult | None) -> RivalStatus:
    if result is not None and any(_same_matter(match, other.families) for other in result.matches):
        return RivalStatus(spec.rule, "open", "It applies as well and has a finding of its own.")
    # Before the rival's own answer: that may rest on this finding (a step that "did not run" tests quiet for
    # whatever it could have done), so an inferred finding must not exclude a rival through it.
    if spec.excluded_when == "proven" and match.certainty == "proven":
        return RivalStatus(spec.rule, "excluded", spec.because)
    if spec.excluded_when == "proven" and match.certainty == "inferred":
        return RivalStatus(spec.rule, "less_likely", spec.because)
    if result is None:
        return RivalStatus(spec.rule, "open", f"It is not tested. {spec.because}")
    if any(_same_matter(match, _families(row)) for row in result.unknown_rows):
        return RivalStatus(spec.rule, "open", f"{_lacking(result)} {spec.because}")
    return RivalStatus(spec.rule, "excluded", "It was tested and does not apply.")


def _same_matter(match: Match, families: Sequence[str]) -> bool:
    """What is about different families does not compete; what names none may be about any."""
    return not match.families or not families or not set(match.families).isdisjoint(families)


def _families(row: Row) -> tuple[str, ...]:
    family: str | None = row["family"]
    return () if family is None else (family,)


def _lacking(result: RuleResult) -> str:
    sources = {result.rule.missing[name].source for name in result.unknown_columns if name in result.rule.missing}
    about = f": {', '.join(sorted(sources))}" if sources else ""
    return f"There is too little evidence to test it{about}."
