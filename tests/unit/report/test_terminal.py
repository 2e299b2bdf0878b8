"""The terminal output: what stands first, what is never cut, and what never gets through."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.report.contract import Gpu, KillEntry, Plan, Report, UnknownRule
from gpudiag.report.fold import fold
from gpudiag.report.terminal import render
from tests.unit.report import sample

REPORTS = [sample.selfmatch, sample.ghost_workers, sample.hostile, sample.empty]


def _commands(report: Report, width: int) -> set[str]:
    """Lines of commands: those of the plan are folded, those of the evidence are left whole."""
    plan = report.plan
    own = {entry.command for entry in plan.kill} | {stop.command for stop in plan.stop_first}
    own |= {then.command for then in plan.then if then.command} | {rule.collect for rule in report.unknown}
    own |= {plan.next_time.command} if plan.next_time else set()
    folded = {line.strip() for command in own for indent in (4, 6) for line in fold(command, width - indent)}
    return folded | {action.text for action in report.actions}


def _cells(line: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in line)
    return len(line) + wide - sum(bool(unicodedata.combining(char)) for char in line)


@pytest.mark.parametrize("make", [sample.selfmatch, sample.ghost_workers, sample.empty])
@pytest.mark.parametrize("width", [40, 80, 132])
def test_only_commands_are_wider_than_the_terminal(make: object, width: int) -> None:
    report = make()  # type: ignore[operator]
    wide = {line.strip() for line in render(report, width).splitlines() if _cells(line) > width}
    assert wide <= _commands(report, width)


@pytest.mark.parametrize("make", REPORTS)
def test_nothing_but_text_comes_out(make: object) -> None:
    shown = render(make())  # type: ignore[operator]
    assert all(line.isprintable() for line in shown.split("\n"))


def test_colour_adds_nothing_but_colour() -> None:
    coloured = render(sample.hostile(), colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render(sample.hostile())
    assert set(re.findall(r"\x1b\[[0-9;]*m", coloured)) <= {"\x1b[1m", "\x1b[0m", "\x1b[1;35m"}


@given(st.text(), st.integers(40, 120))
def test_any_text_keeps_to_the_width(text: str, width: int) -> None:
    rule = UnknownRule(rule=text, missing=(text,), collect="true")
    report = Report(tool=sample.TOOL, outcome=text, summary=text, unknown=(rule,))
    assert all(line.isprintable() and _cells(line) <= width for line in render(report, width).split("\n"))


def test_verdict_then_gpus_then_plan_then_reasons() -> None:
    shown = render(sample.selfmatch())
    order = [
        "MEMORY IS STILL HELD", "GPUS", "WHAT TO DO", "WHAT HAPPENED", "WHO HOLDS IT", "SERVERS AND THEIR PROCESSES",
        "WHY", "WHAT IS NOT KNOWN", "NEXT TIME", "MACHINE AND EVIDENCE",
    ]  # fmt: skip
    headings = [line for line in shown.splitlines() if line.isupper() and not line.startswith(" ")]
    assert headings == order


def test_plan_is_complete() -> None:
    report = sample.selfmatch()
    shown = re.sub(r" \\\n +", " ", render(report)).splitlines()
    for entry in report.plan.kill:
        assert f"      {entry.command}" in shown
    assert any(line.strip().startswith("816 python3") for line in shown)


def test_a_long_plan_is_never_cut() -> None:
    kills = tuple(
        KillEntry(
            process=f"P{pid}", pid=pid, identity="weak", signal="KILL", order=pid, certainty="inferred",
            check="true",
            command=f"kill -KILL {pid}", host="H1",
        )
        for pid in range(1000, 3000, 2)
    )  # fmt: skip
    shown = render(sample.empty().model_copy(update={"plan": Plan(kill=kills)}))
    assert shown.count("kill -KILL ") == len(kills)


def test_unknown_is_never_zero() -> None:
    gpu = Gpu(id="g", host="H1", index=0, outcome="inconclusive")
    shown = render(sample.empty().model_copy(update={"gpus": (gpu,)}))
    assert "GPU 0: used not known" in shown
    assert "0 MiB" not in shown


def test_bar_is_as_wide_as_its_line_and_shows_small_shares() -> None:
    bar = next(line for line in render(sample.selfmatch(), 80).splitlines() if line.startswith("    ["))
    assert len(bar) == 80
    assert set(bar.strip("[] ")) == set("#=dr.")


def test_a_command_that_cannot_be_shown_says_so() -> None:
    assert "characters that do not print" in render(sample.hostile())
    assert "characters that do not print" not in render(sample.selfmatch())


def test_evidence_is_quoted_with_its_place() -> None:
    assert 'Evidence: kill-commands.json:10: "rc": -9,' in render(sample.selfmatch())
