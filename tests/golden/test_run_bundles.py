"""`gpudiag run` around clean-ups on a real GPU: what its record proves, and that the report says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import explain
from gpudiag.report.contract import Report
from tests.golden.expectations import FIXTURES

RUN = FIXTURES / "run"
SELFMATCH = 'pkill -9 -f "vllm.entrypoints" 2>/dev/null; sleep 3; fuser -k /dev/nvidia* 2>/dev/null; sleep 5'


def told(name: str) -> Report:
    return explain([RUN / name])


def texts(report: Report) -> str:
    return "\n".join(event.text for event in report.events)


def test_the_fixtures_are_all_tested() -> None:
    assert {path.name for path in Path(RUN).iterdir()} == {"selfmatch", "term", "asuser"}


def test_a_trace_proves_that_the_second_part_never_ran() -> None:
    """pkill 502 hit the API server 455 and its own shell 500; engine 459 and workers 460, 461 live on."""
    report = told("selfmatch")
    (action,) = report.actions
    assert (action.text, action.exit_code) == (SELFMATCH, -9)
    assert [step.ran for step in action.steps] == ["yes", "no", "no", "no"]
    assert "the kernel trace shows that the shell died" in action.steps[2].because
    proven = {finding.rule for finding in report.findings if finding.certainty == "proven"}
    assert {"GPD101", "GPD102"} <= proven
    assert [entry.pid for entry in report.plan.kill] == [459, 460, 461]
    assert "sent KILL to python3 (455)" in texts(report)
    assert "pkill (502, started by bash 500, and that by gpudiag 473) for A1 sent KILL to bash (500)" in texts(report)


def test_a_trace_shows_whom_a_shells_own_kill_signalled() -> None:
    """The workers 753 and 754 ignore SIGTERM. What the shell became afterwards (`sleep`) did not send it."""
    report = told("term")
    (action,) = report.actions
    assert action.steps[0].hit == (753, 754)
    assert "GPD107" in {finding.rule for finding in report.findings if finding.certainty == "proven"}
    assert "bash (792, started by gpudiag 765) for A1 sent TERM to VLLM::Worker_TP (754), which ignored it" in texts(
        report
    )
    assert report.outcome == "memory_held"


def test_process_events_show_what_was_started() -> None:
    """As a plain user on Linux 6.18: process events over netlink. fuser saw the recorder's own process only."""
    report = told("asuser")
    (action,) = report.actions
    assert [step.ran for step in action.steps] == ["yes", "yes"]
    assert "1262 for A1 became fuser" in texts(report)
    assert "GPD109" in {finding.rule for finding in report.findings}
    assert {1222, 1223} <= {entry.pid for entry in report.plan.kill}


@pytest.mark.parametrize("name", ["selfmatch", "term", "asuser"])
def test_nothing_is_left_unread(name: str) -> None:
    assert [damage for shown in told(name).inputs for damage in shown.damage] == []
