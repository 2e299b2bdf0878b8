"""Every captured incident gets the answer that is known to be true of it."""

from __future__ import annotations

import pytest

from gpudiag.explain import explain
from tests.golden.expectations import FIXTURES, Incident, capture, captures, transcripts

ALL = [*captures(), *transcripts()]


def _id(incident: Incident) -> str:
    return incident.name


@pytest.mark.parametrize("incident", ALL, ids=_id)
def test_outcome_rules_and_plan(incident: Incident) -> None:
    report = explain([incident.path])
    fired = {finding.rule for finding in report.findings}
    planned = {entry.pid for entry in report.plan.kill}
    assert report.outcome == incident.expected["outcome"]
    assert incident.names("rules_fire") <= fired
    assert not incident.names("rules_not") & fired
    assert incident.pids("kill_pids") <= planned
    assert planned <= incident.pids("kill_pids") | incident.pids("kill_optional")
    assert not planned & incident.pids("never_pids")
    assert incident.names("stop_first") <= {entry.kind for entry in report.plan.stop_first}
    assert incident.names("then") <= {entry.kind for entry in report.plan.then}


@pytest.mark.parametrize("incident", ALL, ids=_id)
def test_exactly_one_primary_first(incident: Incident) -> None:
    findings = explain([incident.path]).findings
    assert [finding.primary for finding in findings] == [n == 0 for n in range(len(findings))]


@pytest.mark.parametrize("incident", captures(), ids=_id)
def test_ledger_closes(incident: Incident) -> None:
    """Captures were taken as root on a whole host: nothing may be left over, and the driver is no dustbin."""
    report = explain([incident.path])
    assert report.gpus
    for gpu in report.gpus:
        assert gpu.used_mib is not None
        booked = sum(entry.mib or 0 for entry in gpu.ledger if entry.kind in ("process", "dead_process"))
        driver = sum(entry.mib or 0 for entry in gpu.ledger if entry.kind == "driver")
        rows = sum(entry.kind in ("process", "dead_process") for entry in gpu.ledger)
        assert not [entry for entry in gpu.ledger if entry.kind == "unattributed"]
        assert driver == pytest.approx(gpu.used_mib - booked, abs=1.0)
        pinned_gib = PINNED_GIB.get(incident.name, 0)
        assert driver <= 16 + 8 * rows + 3 * pinned_gib + 0.003 * gpu.used_mib


PINNED_GIB = {
    # The two older orphans have 8 GiB of pinned host memory each; they stand in most captures of that machine.
    **dict.fromkeys(
        (
            "forked-child-holds",
            "forked-child-killed",
            "killed-by-pid",
            "selfmatch-orphans",
            "stopped",
            "teardown-pinned-8g-done",
            "zombie-leader",
            "zombie-plain",
        ),
        16,
    ),
    "script-orphans": 32,
    "teardown-pinned-8g": 32,
    "teardown-pinned-40g": 64,
}


def test_failed_server_and_older_orphans_are_told_apart() -> None:
    report = explain([capture("selfmatch-orphans").path])
    older = next(finding for finding in report.findings if finding.rule == "GPD210")
    survivors = next(f for f in report.findings if f.rule == "GPD201" and f.families != older.families)
    assert older.families != survivors.families
    assert set(older.pids) == {699, 700}
    assert set(survivors.pids) == {887, 888, 889, 890}
    assert 816 in {entry.pid for entry in report.plan.keep}


def test_trace_makes_the_self_match_proven_and_is_quoted() -> None:
    report = explain([capture("traced-selfmatch").path])
    finding = next(finding for finding in report.findings if finding.rule == "GPD102")
    assert finding.certainty == "proven"
    quotes = [item.quote for item in finding.evidence if item.member == "trace.txt"]
    assert any("signal_generate: sig=9" in quote and "pid=543" in quote for quote in quotes)


@pytest.mark.parametrize(("name", "seconds"), [("teardown-pinned-40g-done", 10.3), ("teardown-pinned-8g-done", 2.1)])
def test_release_time(name: str, seconds: float) -> None:
    report = explain([capture(name).path])
    finding = next(finding for finding in report.findings if finding.rule == "GPD605")
    assert finding.measures["released_after_s"] == pytest.approx(seconds, abs=0.1)


def test_teardown_says_how_long() -> None:
    report = explain([capture("teardown-pinned-40g").path])
    finding = next(finding for finding in report.findings if finding.rule == "GPD301")
    assert finding.measures["expected_release_s"] == pytest.approx(11, abs=0.6)
    assert "11 s" in next(entry.because for entry in report.plan.then if entry.kind == "wait")


def test_teardown_without_an_earlier_look_gives_a_bound() -> None:
    """Nothing shows how much host memory was pinned, so no time may be made up."""
    report = explain([capture("teardown-pinned-8g").path])
    finding = next(finding for finding in report.findings if finding.rule == "GPD301")
    assert "expected_release_s" not in finding.measures
    assert "half a minute" in next(entry.because for entry in report.plan.then if entry.kind == "wait")


def test_zombies_are_not_blamed() -> None:
    report = explain([capture("zombie-plain").path])
    finding = next(finding for finding in report.findings if finding.rule == "GPD603")
    assert finding.pids == (1165,)
    assert not finding.explains_mib


def test_loop_is_stopped_before_anything_is_killed() -> None:
    report = explain([capture("respawned").path])
    assert [entry.id for entry in report.plan.stop_first] == ["1079"]


def test_bystanders_of_a_pattern_are_named() -> None:
    report = explain([capture("two-servers-one-pattern").path])
    finding = next(finding for finding in report.findings if finding.rule == "GPD111")
    assert set(finding.pids) == {833, 834}


@pytest.mark.parametrize(
    ("name", "rules"),
    [("pidns", {"GPD401"}), ("hidepid", {"GPD401"}), ("nobodykill", {"GPD102", "GPD106"})],
)
def test_views(name: str, rules: set[str]) -> None:
    report = explain([FIXTURES / "h200" / "views" / f"{name}.txt"])
    assert rules <= {finding.rule for finding in report.findings}
    assert report.outcome == "inconclusive"
    assert report.plan.kill == ()


def test_view_of_another_user_names_holders_and_kills_nobody() -> None:
    report = explain([FIXTURES / "h200" / "views" / "nobody.txt"])
    assert {entry.pid for gpu in report.gpus for entry in gpu.ledger if entry.pid} == {699, 700, 1461, 1462}
    assert report.gpus[0].used_mib == 53698


def test_refused_kill_names_whom() -> None:
    report = explain([FIXTURES / "h200" / "views" / "nobodykill.txt"])
    step = next(step for action in report.actions for step in action.steps if step.tool == "pkill")
    assert {699, 700, 1461, 1462} <= set(step.not_permitted)


def test_ghost_workers_rival_and_missing_engine() -> None:
    report = explain([FIXTURES / "incidents" / "ghost-workers.txt"])
    rivals = {rival.rule: rival for finding in report.findings for rival in finding.rivals}
    assert rivals["GPD104"].status == "less_likely"
    assert any(finding.settled_by for finding in report.findings)
    text = report.to_json()
    assert "EngineCore" in text


def test_orphaned_memory_rivals_and_environment() -> None:
    report = explain([FIXTURES / "incidents" / "orphaned-memory.txt"])
    finding = next(finding for finding in report.findings if finding.rule == "GPD102")
    status = {rival.rule: rival.status for rival in finding.rivals}
    assert status["GPD302"] == "less_likely"
    assert status["GPD301"] == "open"
    assert report.hosts[0].driver_version == "590.48.01"
    assert report.hosts[0].cuda_version == "13.1"
    assert any("2026-02-20" in (look.time or "") and "19:00:06" in (look.time or "") for look in report.looks)
