"""Less evidence may make the answer weaker, never wrong.

With any file, any class of evidence, or any two classes taken away: no PID appears that the full evidence does not
name, and no cause that it does not find. And whatever does not depend on the missing part has to survive: the list
below holds every difference that is allowed, so that "inconclusive" is not a way out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gpudiag.evidence.exhibit import Unreadable
from gpudiag.explain import explain
from gpudiag.report.contract import Report
from tests.golden.expectations import Incident, captures
from tests.golden.removal import Removal, classes, reduced, single_files, without_earlier_looks

Kind = Callable[[Path], Iterator[Removal]]


class Left(NamedTuple):
    """What is left of the answer."""

    outcome: str
    plan: frozenset[int]


def left(outcome: str, *plan: int) -> Left:
    """Outcome and exactly these PIDs."""
    return Left(outcome, frozenset(plan))


HELD, UNCLEAR, NOTHING = "memory_held", "inconclusive", "nothing_held"
OLDER = (698, 699, 700)

WEAKER: dict[str, dict[str, Left]] = {
    "forked-child-holds": {
        "gpu": left(UNCLEAR, *OLDER, 1247),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, *OLDER, 1247),
        "processes": left(HELD),
        "handles+processes": left(HELD),
        "actions+processes": left(HELD),
        "handles": left(HELD, *OLDER),
        "actions+handles": left(HELD, *OLDER),
    },
    "forked-child-killed": {
        "gpu": left(UNCLEAR, *OLDER),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, *OLDER),
        "processes": left(UNCLEAR),
        "handles+processes": left(HELD),
        "actions+processes": left(HELD),
    },
    "fuser-as-user": {
        "kill-commands.json": left(HELD),
        "gpu": left(UNCLEAR, 641, 643, 644, 645),
        "gpu+processes": left(UNCLEAR, 644, 645),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR),
        "processes": left(HELD, 644, 645),
        "handles+processes": left(HELD, 644, 645),
        "actions+processes": left(HELD),
        "actions+handles": left(HELD),
        "actions": left(HELD),
    },
    "fuser-too-early": {
        "kill-commands.json": left(HELD),
        "gpu": left(UNCLEAR, 437, 439, 440, 441),
        "gpu+processes": left(UNCLEAR, 440, 441),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR),
        "processes": left(HELD, 440, 441),
        "handles+processes": left(HELD, 440, 441),
        "actions+processes": left(HELD),
        "actions+handles": left(HELD),
        "actions": left(HELD),
    },
    "idle": {
        "gpu": left(UNCLEAR),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
    },
    "killed-by-pid": {
        "gpu": left(UNCLEAR, *OLDER),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, *OLDER),
        "processes": left(UNCLEAR),
        "handles+processes": left(UNCLEAR),
        "actions+processes": left(HELD),
    },
    "respawned": {
        "kill-commands.json": left(HELD),
        "gpu": left(UNCLEAR, 1136),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR),
        "gpu+trace": left(UNCLEAR, 1136),
        "processes": left(UNCLEAR),
        "handles+processes": left(UNCLEAR),
        "actions+processes": left(HELD),
        "processes+trace": left(UNCLEAR),
        "actions+handles": left(HELD),
        "actions": left(HELD),
        "actions+trace": left(HELD),
    },
    "script-orphans": {
        "gpu": left(UNCLEAR, *OLDER, 1056, 1057, 1058),
        "gpu+processes": left(UNCLEAR, 1057, 1058),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, *OLDER, 1056, 1057, 1058),
        "processes": left(HELD, 1057, 1058),
        "handles+processes": left(HELD, 1057, 1058),
        "actions+processes": left(HELD),
    },
    "selfmatch-orphans": {
        "gpu": left(UNCLEAR, *OLDER, 886, 887, 888, 889, 890),
        "gpu+processes": left(UNCLEAR, 887, 888, 889, 890),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, *OLDER, 886, 887, 888, 889, 890),
        "processes": left(HELD, 887, 888, 889, 890),
        "handles+processes": left(HELD, 887, 888, 889, 890),
        "actions+processes": left(HELD),
    },
    "stopped": {
        "gpu": left(UNCLEAR, *OLDER, 1461, 1462),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "processes": left(HELD),
        "handles+processes": left(HELD),
    },
    "teardown-pinned-40g-done": {
        "gpu": left(UNCLEAR),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR),
    },
    "teardown-pinned-40g": {
        "gpu": left(UNCLEAR),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR),
        "actions+processes": left(UNCLEAR),
    },
    "teardown-pinned-8g-done": {
        "gpu": left(UNCLEAR, *OLDER),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, *OLDER),
        "processes": left(UNCLEAR),
        "handles+processes": left(UNCLEAR),
        "actions+processes": left(HELD),
    },
    "teardown-pinned-8g": {
        "gpu": left(UNCLEAR, *OLDER),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, *OLDER),
        "processes": left(UNCLEAR),
        "handles+processes": left(UNCLEAR),
        "actions+processes": left(HELD),
    },
    "torchrun-agent-killed": {
        "gpu": left(UNCLEAR, 450, 451, 452),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, 450, 451, 452),
        "processes": left(UNCLEAR),
        "handles+processes": left(HELD),
        "actions+processes": left(HELD),
    },
    "traced-selfmatch": {
        "gpu": left(UNCLEAR, 452, 453, 454, 455, 456),
        "gpu+processes": left(UNCLEAR, 453, 454, 455, 456),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, 452, 453, 454, 455, 456),
        "gpu+trace": left(UNCLEAR, 452, 453, 454, 455, 456),
        "processes": left(HELD, 453, 454, 455, 456),
        "handles+processes": left(HELD, 453, 454, 455, 456),
        "actions+processes": left(HELD),
        "processes+trace": left(HELD, 453, 454, 455, 456),
    },
    "two-servers-one-pattern": {
        "gpu": left(UNCLEAR),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR),
    },
    "zombie-leader": {
        "after/proc.json": left(HELD, *OLDER),
        "gpu": left(UNCLEAR, *OLDER),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "processes": left(HELD),
        "handles+processes": left(HELD),
    },
    "zombie-plain": {
        "gpu": left(UNCLEAR, *OLDER),
        "gpu+processes": left(UNCLEAR),
        "gpu+handles": left(UNCLEAR),
        "actions+gpu": left(UNCLEAR, *OLDER),
        "processes": left(UNCLEAR),
        "handles+processes": left(UNCLEAR),
        "actions+processes": left(HELD),
    },
}


NAMED_BY_THE_COMMAND = ("fuser-as-user", "fuser-too-early")
"""Running servers: without the command nothing says that anybody wanted to stop them."""
TIED_BY_AN_EARLIER_LOOK = ("respawned", "torchrun-agent-killed")
"""Only a look before the kill shows who started whom."""
FREE_AND_NEVER_SEEN_HELD = ("two-servers-one-pattern",)


def after_only(incident: Incident, removal: Removal, full: Left) -> Left:
    """What a look after the clean-up alone must still tell."""
    command = not removal.name.endswith("command unknown")
    if incident.name in TIED_BY_AN_EARLIER_LOOK or (incident.name in NAMED_BY_THE_COMMAND and not command):
        return left(HELD)
    series = removal.name == "after only"
    if incident.name in FREE_AND_NEVER_SEEN_HELD or (incident.name == "teardown-pinned-40g-done" and not series):
        return left(NOTHING)
    return full


def _id(incident: Incident) -> str:
    return incident.name


def _answer(report: Report) -> Left:
    return Left(report.outcome, frozenset(entry.pid for entry in report.plan.kill))


def _primary(report: Report) -> str | None:
    return next((finding.rule for finding in report.findings if finding.primary), None)


def _explain_without(incident: Incident, removal: Removal, target: Path) -> Report | None:
    path = reduced(incident.path, removal, target)
    if path is None:
        return None
    try:
        return explain([path])
    except Unreadable:
        return None


@pytest.mark.parametrize("kind", [single_files, classes, without_earlier_looks])
@pytest.mark.parametrize("incident", captures(), ids=_id)
def test_less_evidence_is_never_wrong(incident: Incident, kind: Kind, tmp_path: Path) -> None:
    full = explain([incident.path])
    known = {finding.rule for finding in full.findings} | {"GPD901", None}
    wrong: list[str] = []
    for number, removal in enumerate(kind(incident.path)):
        report = _explain_without(incident, removal, tmp_path / str(number))
        if report is None:
            continue
        answer = _answer(report)
        if not answer.plan <= _answer(full).plan:
            wrong.append(f"{removal.name}: names {sorted(answer.plan - _answer(full).plan)}")
        if _primary(report) not in known:
            wrong.append(f"{removal.name}: finds {_primary(report)}")
        if kind is without_earlier_looks:
            expected = after_only(incident, removal, _answer(full))
        else:
            expected = WEAKER.get(incident.name, {}).get(removal.name, _answer(full))
        if answer != expected:
            wrong.append(f"{removal.name}: {answer.outcome} {sorted(answer.plan)}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_every_allowed_difference_belongs_to_a_removal() -> None:
    names = {c.name: {r.name for r in (*single_files(c.path), *classes(c.path))} for c in captures()}
    assert all(removal in names[capture] for capture, list_ in WEAKER.items() for removal in list_)
