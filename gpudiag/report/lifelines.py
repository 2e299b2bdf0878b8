"""One line a process on the report's time axis: since when it ran, what each command did to it, how it ended.

A line is solid where a look shows the process and dashed where it was there before and is missing after: between two
looks nobody saw the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gpudiag.report.axis import WIDTH, Axis, placed
from gpudiag.report.contract import Fate, ProcessRef
from gpudiag.report.text import parse_time
from gpudiag.report.view import Member, View

_ENDED_STATES: Final = frozenset("ZX")


@dataclass(frozen=True)
class Touch:
    """What a command did to the process."""

    x: float
    hit: bool


@dataclass(frozen=True)
class Lifeline:
    pid: int
    name: str
    depth: int
    start_x: float
    seen_x: float
    """End of the solid part."""
    end_x: float
    """End of the dashed part; the same where there is none."""
    ends: bool
    """A cross stands at the end; else the process lives on in the newest look."""
    touches: tuple[Touch, ...]
    words: str
    """What the line shows: ``missed by A1; alive at the end``."""


@dataclass(frozen=True)
class _Times:
    looks: dict[str, datetime]
    newest: dict[str, datetime]
    """Of each host."""
    actions: dict[str, datetime]
    exits: dict[str, datetime]


def build(view: View, axis: Axis) -> tuple[Lifeline, ...]:
    """Members of the families, parents first; those of families with something to kill before the others."""
    times = _times(view)
    planned = {entry.process for entry in view.report.plan.kill}
    families = sorted(view.report.families, key=lambda family: not planned.intersection(family.members))
    members = (member for family in families for member in view.members(family))
    lines = (_line(view, member, times, axis) for member in members)
    return tuple(line for line in lines if line is not None)


def _times(view: View) -> _Times:
    report = view.report
    looks = {look.id: time for look in report.looks if (time := parse_time(look.time)) is not None}
    newest: dict[str, datetime] = {}
    for look in report.looks:
        if look.id in looks:
            newest[look.host] = max(looks[look.id], newest.get(look.host, looks[look.id]))
    actions = {
        action.id: time for action in report.actions if (time := placed(action.time, action.time_error_s)) is not None
    }
    exits = {
        event.process: time
        for event in report.events
        if event.kind == "exit" and event.process is not None and (time := parse_time(event.time)) is not None
    }
    return _Times(looks, newest, actions, exits)


@dataclass(frozen=True)
class _End:
    """How far a process is known to have lived."""

    seen: datetime
    """It was still there."""
    until: datetime
    """It was not there any more; the same as ``seen`` where its end is known exactly."""
    words: str


def _line(view: View, member: Member, times: _Times, axis: Axis) -> Lifeline | None:
    process = member.process
    seen = times.looks.get(process.last_seen or "")
    if seen is None:
        return None
    start = parse_time(process.start_time)
    end = _end(view, process, seen, times)
    return Lifeline(
        pid=process.pid,
        name=process.name or "",
        depth=member.depth,
        start_x=axis.x(start) if start is not None else 0.0,
        seen_x=WIDTH if end is None else axis.x(end.seen),
        end_x=WIDTH if end is None else axis.x(end.until),
        ends=end is not None,
        touches=_touches(process.fate, times, axis),
        words="; ".join(
            part for part in (_touched(process), _lives(view, process) if end is None else end.words) if part
        ),
    )


def _end(view: View, process: ProcessRef, seen: datetime, times: _Times) -> _End | None:
    """``None`` for one that is there in the newest look."""
    exited = times.exits.get(process.id)
    if exited is not None:
        return _End(exited, exited, "exit traced")
    if process.id in view.dead:
        # Only the driver still lists it: it was gone before this look, and after the one before.
        earlier = max((time for time in times.looks.values() if time < seen), default=seen)
        return _End(earlier, seen, "ended, its memory is held open")
    if seen < times.newest.get(process.host, seen):
        return _End(seen, min((time for time in times.looks.values() if time > seen), default=seen), "gone at the end")
    if (process.state or "")[:1] in _ENDED_STATES and process.id not in view.exiting:
        return _End(seen, seen, "ended, a zombie")
    return None


def _lives(view: View, process: ProcessRef) -> str:
    if process.id in view.exiting:
        return "zombie, threads left"
    return "alive at the end" if process.state else "listed at the end"


def _touches(fates: tuple[Fate, ...], times: _Times, axis: Axis) -> tuple[Touch, ...]:
    """One a command: it counts as hit if any of its steps hit."""
    reached: dict[str, bool] = {}
    for fate in fates:
        action = fate.step.partition(".")[0]
        if action in times.actions and fate.reached != "unknown":
            reached[action] = reached.get(action, False) or fate.reached == "yes"
    return tuple(Touch(axis.x(times.actions[action]), hit) for action, hit in reached.items())


def _touched(process: ProcessRef) -> str:
    hits = dict.fromkeys(fate.step for fate in process.fate if fate.reached == "yes")
    misses = dict.fromkeys(fate.step.partition(".")[0] for fate in process.fate if fate.reached == "no")
    return f"hit by {', '.join(hits)}" if hits else f"missed by {', '.join(misses)}" if misses else ""
