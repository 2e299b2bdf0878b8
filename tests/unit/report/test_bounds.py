"""However long the texts of a report are, its outputs stay small, quick, and keep the plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpudiag.report import html, markdown, terminal
from gpudiag.report.contract import Report
from tests.unit.report import sample

ENDLESS = " " + "x|`* " * 20_000
COMMANDS = {"command", "collect"}
"""Not cut: a part of a command is worse than none."""


def _texts(value: Any, key: str = "") -> set[str]:
    if isinstance(value, dict):
        return set().union(*(_texts(item, name) for name, item in value.items()))
    if isinstance(value, list):
        return set().union(*(_texts(item, key) for item in value))
    return {key} if isinstance(value, str) else set()


def _grown(value: Any, grow: set[str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _grown(item, grow, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_grown(item, grow, key) for item in value]
    return value + ENDLESS if isinstance(value, str) and key in grow else value


PLAIN = json.loads(sample.selfmatch().to_json())


@pytest.mark.parametrize(
    "grow",
    [*({key} for key in sorted(_texts(PLAIN) - COMMANDS)), _texts(PLAIN) - COMMANDS],
    ids=lambda grow: " ".join(sorted(grow))[:40],
)
def test_no_text_makes_an_output_long(grow: set[str]) -> None:
    report = Report.model_validate(_grown(PLAIN, grow))
    assert len(html.render(report)) < 600_000
    assert len(terminal.render(report)) < 600_000
    shown = markdown.render(report)
    assert len(shown) <= markdown.COMMENT_CAP
    assert shown.startswith("# ")


@pytest.mark.parametrize("key", ["summary", "title", "because", "text", "name", "quote", "cmdline", "missing", "step"])
def test_a_long_text_does_not_push_the_plan_out(key: str) -> None:
    report = Report.model_validate(_grown(PLAIN, {key}))
    shown = markdown.render(report).split("\n")
    assert all(entry.command in shown for entry in report.plan.kill)


def test_a_command_of_the_plan_is_never_cut() -> None:
    plan = sample.selfmatch().plan
    command = f"kill -KILL 7  # {'x' * 10_000}"
    entry = plan.kill[0].model_copy(update={"command": command})
    report = sample.selfmatch().model_copy(update={"plan": plan.model_copy(update={"kill": (entry,)})})
    for shown in (html.render(report), terminal.render(report), markdown.render(report)):
        assert command in shown
