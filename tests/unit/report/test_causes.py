"""The causes on the first screen, and what would tell more."""

from __future__ import annotations

from gpudiag.report import causes
from gpudiag.report.contract import Evidence
from tests.unit.report import sample


def test_memory_of_another_server_has_its_own_cause() -> None:
    base = sample.selfmatch()
    older = base.findings[1].model_copy(
        update={"rule": "GPD210", "title": "Left over", "families": ("F2",), "explains_mib": 42180}
    )
    told = causes.causes(base.model_copy(update={"findings": (*base.findings, older)}))
    assert [f"{cause.label}: {cause.words}" for cause in told] == [
        "Why: The kill command stopped its own shell (GPD102), 35,208 MiB",
        "Also: Left over (GPD210), 42,180 MiB",
    ]


def test_a_cause_is_told_once() -> None:
    base = sample.selfmatch()
    both = base.findings[0].model_copy(update={"families": ("F1", "F2")})
    families = tuple(family.model_copy(update={"primary": "GPD102"}) for family in base.families)
    report = base.model_copy(update={"findings": (both,), "families": families})
    assert [cause.label for cause in causes.causes(report)] == ["Why"]


def test_nothing_held_asks_no_why() -> None:
    report = sample.selfmatch().model_copy(update={"outcome": "released", "families": ()})
    assert [cause.label for cause in causes.causes(report)] == ["Found"]
    assert causes.causes(sample.empty()) == ()


def test_quotes_that_say_something_come_first() -> None:
    base = sample.selfmatch()
    lines = ('"887": {', "root 887 55.6 0.4 VLLM::Worker_TP0", "}")
    quoted = tuple(Evidence(input="I1", member="f", line=n, quote=quote) for n, quote in enumerate(lines))
    finding = base.findings[0].model_copy(update={"evidence": quoted})
    assert [item.line for item in causes.quotes(finding)] == [1, 0, 2]
