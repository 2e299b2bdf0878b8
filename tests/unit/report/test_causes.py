"""The causes on the first screen, and what would tell more."""

from __future__ import annotations

import pytest

from gpudiag.report import causes, html, markdown, terminal
from gpudiag.report.contract import Evidence, SourceRef, UnknownRule
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


def test_nothing_is_said_to_be_proven_of_a_cause_that_is_not_known() -> None:
    base = sample.selfmatch()
    none = base.findings[0].model_copy(
        update={"rule": "GPD901", "title": "The evidence does not tell why", "explains_mib": None}
    )
    report = base.model_copy(update={"findings": (none,), "families": ()})
    (cause,) = causes.causes(report)
    assert cause.told == "The evidence does not tell why (GPD901)."
    assert causes.standing(none) == ()
    assert causes.standing(base.findings[0]) == ("main cause", "proven")
    for drawn in (terminal.render(report), markdown.render(report), html.render(report)):
        assert "proven: the evidence itself" not in drawn.lower()
        assert "main cause" not in drawn


@pytest.mark.parametrize(
    ("missing", "read", "words"),
    [
        (("open handles", "server log"), (), "Too little evidence (no open handles, no server log) to tell"),
        (("kill commands",), ("kill commands",), "What was read of the kill commands says too little to tell"),
        (
            ("kill commands", "server log", "process table"),
            ("kill commands", "process table"),
            "Too little evidence (no server log, too little in the kill commands and process table) to tell",
        ),
        ((), (), "Too little evidence to tell"),
    ],
)
def test_what_was_read_is_not_said_to_lack(missing: tuple[str, ...], read: tuple[str, ...], words: str) -> None:
    base = sample.selfmatch()
    sources = tuple(
        SourceRef(input="I1", source=source, outcome="ok" if source in read else "absent")
        for source in ("open handles", "server log", "process table")
    )
    asked = UnknownRule(rule="GPD305", missing=missing, collect="ps")
    actions = base.actions if "kill commands" in read else ()
    report = base.model_copy(update={"unknown": (asked,), "sources": sources, "actions": actions})
    assert [ask.words for ask in causes.asks(report)] == [f"{words} whether this applies:"]
