"""A capture in a bundle is explained as the capture itself; a bundle that is cut says less, never something else."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpudiag.bundle.format import Start
from gpudiag.bundle.gzipped import MAGIC
from gpudiag.evidence import Exhibit, Input, Unreadable, read_input
from gpudiag.explain import explain
from gpudiag.parse import parse
from gpudiag.report.contract import Report
from tests.bundle_kit import NOBODY, in_order_of_time, pack, pack_capture
from tests.golden.expectations import Incident, captures

CUTS = 1000
"""Places at which a large bundle is cut and parsed."""
EXPLAINED = {"selfmatch-orphans": 16, "killed-by-pid": 8, "forked-child-killed": 8, "teardown-pinned-40g-done": 8}
"""Captures whose bundle is cut and explained, with the number of places: those whose looks differ most."""
BOOT_ID = "0f0e0d0c-0b0a-0908-0706-050403020100"


def capture(name: str) -> Path:
    return next(incident.path for incident in captures() if incident.name == name)


def content(report: Report) -> Mapping[str, Any]:
    """All that a report says, except what the input is called."""
    return {key: value for key, value in report.model_dump(mode="json").items() if key != "inputs"}


def planned(report: Report) -> set[int]:
    return {entry.pid for entry in report.plan.kill}


@pytest.mark.parametrize("incident", captures(), ids=lambda incident: incident.name)
def test_the_same_report_as_from_the_folder(incident: Incident, tmp_path: Path) -> None:
    bundle = explain([pack_capture(incident.path, tmp_path / "b.tgz")])
    assert content(bundle) == content(explain([incident.path]))
    assert bundle.inputs[0].kind == "bundle"


KINDS = ("samples", "bookings", "processes", "handles", "actions", "trace", "clocks", "roles", "facts")
"""Rows of the host; damage and coverage are none."""


@cache
def rows_of(exhibit: Exhibit) -> tuple[int, ...]:
    """Rows of one exhibit, by kind. Cuts differ in one exhibit only, the others need no second parsing."""
    parsed = parse([Input("I1", "x", "bundle", True, (exhibit,), (), (), ())])
    return tuple(len(getattr(parsed, kind)) for kind in KINDS)


def rows(path: Path) -> list[int]:
    """How many rows of each kind can be parsed."""
    try:
        exhibits = read_input(path, "I1").exhibits
    except Unreadable:
        return [0] * len(KINDS)
    return [sum(counts) for counts in zip(*map(rows_of, exhibits), strict=True)]


def test_more_bytes_never_give_fewer_rows(tmp_path: Path) -> None:
    data = pack_capture(capture("traced-selfmatch"), tmp_path / "b.tgz").read_bytes()
    path = tmp_path / "cut.tgz"
    before = [0] * len(KINDS)
    for length in sorted(random.Random(1).sample(range(len(data)), CUTS)):
        path.write_bytes(data[:length])
        now = rows(path)
        assert all(count >= earlier for count, earlier in zip(now, before, strict=True)), (length, before, now)
        before = now
    assert before[KINDS.index("processes")] > 100


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_cut_bundle_never_contradicts_the_whole_one(name: str, tmp_path: Path) -> None:
    whole = pack_capture(capture(name), tmp_path / "b.tgz")
    full = explain([whole])
    data = whole.read_bytes()
    # Half of the places lie between two sources, where a recorder that is killed leaves a bundle.
    ends = [place for place in range(1, len(data)) if data.startswith(MAGIC, place)]
    dice = random.Random(2)
    half = EXPLAINED[name] // 2
    path = tmp_path / "cut.tgz"
    seen: set[str] = set()
    for length in sorted([*dice.sample(ends, half), *dice.sample(range(len(data) // 10, len(data)), half)]):
        path.write_bytes(data[:length])
        report = explain([path])
        assert planned(report) <= planned(full), length
        assert report.outcome in (full.outcome, "inconclusive"), length
        assert not report.inputs[0].complete
        seen.add(report.outcome)
    assert "inconclusive" in seen


def test_boot_id_and_start_ticks_are_a_strong_identity(tmp_path: Path) -> None:
    start = NOBODY._replace(boot_id=BOOT_ID, uid=0)
    report = explain([pack_capture(capture("selfmatch-orphans"), tmp_path / "b.tgz", start)])
    assert report.hosts[0].boot_id == BOOT_ID
    assert report.plan.kill
    for planned_kill in report.plan.kill:
        assert (planned_kill.identity, planned_kill.boot_id) == ("strong", BOOT_ID)
        assert planned_kill.command.startswith(f'[ "$(cat /proc/sys/kernel/random/boot_id)" = {BOOT_ID} ] && [ ')
    assert planned(report) == planned(explain([capture("selfmatch-orphans")]))


def test_the_recorders_own_processes_are_never_in_the_plan(tmp_path: Path) -> None:
    plain = planned(explain([capture("selfmatch-orphans")]))
    start: Start = NOBODY._replace(pids=tuple(sorted(plain))[:1])
    report = explain([pack_capture(capture("selfmatch-orphans"), tmp_path / "b.tgz", start)])
    assert planned(report) <= plain - set(start.pids)


def test_the_host_of_the_start_record_is_the_host_of_the_report(tmp_path: Path) -> None:
    start = NOBODY._replace(host="node-1")
    report = explain([pack_capture(capture("selfmatch-orphans"), tmp_path / "b.tgz", start)])
    assert [host.name for host in report.hosts] == ["node-1"]
    alone = json.loads(json.dumps(content(report)).replace('"node-1"', '""'))
    folder = json.loads(json.dumps(content(explain([capture("selfmatch-orphans")]))))
    assert alone["plan"] == folder["plan"]
    assert alone["findings"] == folder["findings"]


def test_a_look_that_is_older_than_the_last_command_names_nobody(tmp_path: Path) -> None:
    full = explain([capture("killed-by-pid")])
    whole = capture("killed-by-pid")
    kept = ("before/", "kill-commands.json")
    files = {name: data for name, data in in_order_of_time(whole).items() if name.startswith(kept)}
    report = explain([pack(files, tmp_path / "b.tgz")])
    assert planned(full)
    assert (report.outcome, planned(report)) == ("inconclusive", set())
    assert any("older than the last command" in step.because for step in report.plan.then)
