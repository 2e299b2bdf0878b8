"""The timeline: used memory of each GPU, the clean-up commands, the processes and the events over one time axis.

Horizontal places are those of :mod:`gpudiag.report.axis`; vertical ones go from 0, the top edge, to HEIGHT. Only
measured points are drawn; a line between two of them is dashed where nothing was measured for long, because a gap is
not a plateau.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Final, TypeVar

from gpudiag.report import axis as axes
from gpudiag.report import lifelines
from gpudiag.report.axis import WIDTH, Axis
from gpudiag.report.contract import Action, Event, Gpu, Sample
from gpudiag.report.lifelines import Lifeline
from gpudiag.report.text import mib, parse_time, plural
from gpudiag.report.view import View

T = TypeVar("T")

HEIGHT: Final = 100.0
MAX_POINTS: Final = 240
"""Points of one line; more are thinned, keeping the lowest and the highest of each stretch."""
MAX_DOTS: Final = 60
"""Points that are drawn as dots too; more would touch each other."""
SMALL_SHARE: Final = 0.4
"""Below this share of the GPU's memory a line gets a scale of its own."""
HEADROOM: Final = 0.8
"""Share of the height that such a line reaches."""
MAX_LINES: Final = 64
"""Process lines: eight GPUs with a worker each and seven others a GPU. More stand in the JSON report."""
MAX_ACTIONS: Final = 60
"""Commands that are drawn, the newest ones: each is a mark on every line."""
MAX_MARKS: Final = 200
"""Events of a kind."""
_LABEL_ROOM: Final = 40.0
"""Closer labels than this would overlap."""
_SENTENCE_ROOM: Final = 400.0
"""The same for labels that say what a command did, on a narrow screen."""
_EVENT_KINDS: Final = {"log": "server log", "kernel": "kernel log"}
"""What an event of a kind was read in; all others are the kernel's trace."""
_GAP_FACTOR: Final = 5
"""A stretch this many times longer than the usual one counts as not measured."""


@dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True)
class Stretch:
    """Points joined by a line."""

    points: tuple[Point, ...]
    measured: bool
    """False for two points with a time between them that is long against the others."""


@dataclass(frozen=True)
class Mark:
    """A vertical line at a moment."""

    x: float
    label: str
    """Empty where a label would overlap the one before."""


@dataclass(frozen=True)
class EventLane:
    """What one kind of source says happened."""

    name: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Lane:
    """The line of one GPU."""

    gpu: str
    name: str
    top: str
    """Size at the top edge: the GPU's memory, or less where only a small part of it was ever in use."""
    points: tuple[Point, ...]
    stretches: tuple[Stretch, ...]
    words: str
    """What the line shows, for those who cannot see it; the name is not in it."""

    @property
    def dots(self) -> tuple[Point, ...]:
        """The points where they are few enough to be told apart."""
        return self.points if len(self.points) <= MAX_DOTS else ()


@dataclass(frozen=True)
class Chart:
    lanes: tuple[Lane, ...]
    lifelines: tuple[Lifeline, ...]
    lifelines_left_out: int
    actions: tuple[Mark, ...]
    events: tuple[EventLane, ...]
    ticks: tuple[Mark, ...]
    """Labelled moments of the axis."""
    overview: Chart | None = None
    """The lanes over all the time that was measured, where this one shows only the part with the commands."""


Series = list[tuple[datetime, float]]


def build(view: View) -> Chart | None:
    """The timeline; ``None`` where nothing that it could draw has a time."""
    whole = axes.of_report(view)
    if whole is None:
        return None
    series = _series(view)
    near = axes.around_commands(view, whole)
    lives = lifelines.build(view, near or whole) if whole.last > whole.first else ()
    if not series and not lives:
        return None
    if near is None:
        return _chart(view, whole, series, lives)
    return replace(_chart(view, near, series, lives), overview=_chart(view, whole, series, ()))


def _chart(view: View, axis: Axis, series: dict[str, Series], lives: tuple[Lifeline, ...]) -> Chart:
    return Chart(
        lanes=_lanes(view, series, axis),
        lifelines=lives[:MAX_LINES],
        lifelines_left_out=max(len(lives) - MAX_LINES, 0),
        actions=_action_marks(view.report.actions, axis),
        events=_event_lanes(view.report.events, axis),
        ticks=_ticks(axis),
    )


def _lanes(view: View, series: dict[str, Series], axis: Axis) -> tuple[Lane, ...]:
    shown = ((gpu, [point for point in points if axis.covers(point[0])]) for gpu, points in series.items())
    return tuple(_lane(view, gpu, _thinned(points), axis) for gpu, points in shown if points)


def _action_marks(actions: tuple[Action, ...], axis: Axis) -> tuple[Mark, ...]:
    """Each command, with what it hit and missed where that has room."""
    timed = _timed([(axes.placed(action.time, action.time_error_s), action) for action in actions])[-MAX_ACTIONS:]
    edges = [-WIDTH, *(axis.x(time) for time, _ in timed), 2 * WIDTH]
    marks: list[Mark] = []
    labelled = -WIDTH
    for (_, action), before, x, after in zip(timed, edges, edges[1:], edges[2:], strict=False):
        fits = x - labelled >= _LABEL_ROOM
        alone = min(x - before, after - x) >= _SENTENCE_ROOM
        marks.append(Mark(x, (_effect(action) if alone else action.id) if fits else ""))
        labelled = x if fits else labelled
    return tuple(marks)


def _effect(action: Action) -> str:
    """``A1: hit 1, missed 5``."""
    hit = {pid for step in action.steps for pid in step.hit}
    missed = {pid for step in action.steps for pid in step.missed} - hit
    parts = [f"{verb} {len(pids)}" for verb, pids in (("hit", hit), ("missed", missed)) if pids]
    return f"{action.id}: {', '.join(parts)}" if parts else action.id


def _event_lanes(events: tuple[Event, ...], axis: Axis) -> tuple[EventLane, ...]:
    lanes: dict[str, list[Mark]] = {}
    for time, event in _timed([(axes.placed(event.time, event.time_error_s), event) for event in events]):
        marks = lanes.setdefault(_EVENT_KINDS.get(event.kind, "kernel trace"), [])
        if axis.covers(time) and len(marks) < MAX_MARKS:
            marks.append(Mark(axis.x(time), ""))
    return tuple(EventLane(name, tuple(marks)) for name, marks in lanes.items() if marks)


def _ticks(axis: Axis) -> tuple[Mark, ...]:
    """Both ends, and the middle where it lies whole seconds away from them."""
    if axis.last == axis.first:
        return (Mark(axis.x(axis.first), axis.label(axis.first)),)
    ends = [axis.first, axis.last]
    if (axis.last - axis.first).total_seconds() >= 4:
        ends.insert(1, axis.first + (axis.last - axis.first) / 2)
    return tuple(Mark(axis.x(time), axis.label(time)) for time in ends)


def _series(view: View) -> dict[str, Series]:
    series: dict[str, Series] = {gpu.id: [] for gpu in view.report.gpus}
    for sample in view.report.samples:
        if (point := _timed_sample(sample)) is not None:
            series.setdefault(sample.gpu, []).append(point)
    return {gpu: sorted(points) for gpu, points in series.items() if points}


def _timed_sample(sample: Sample) -> tuple[datetime, float] | None:
    time = parse_time(sample.time)
    return None if time is None or sample.used_mib is None else (time, sample.used_mib)


def _timed(pairs: list[tuple[datetime | None, T]]) -> list[tuple[datetime, T]]:
    """Those with a time, by time."""
    return sorted(((time, what) for time, what in pairs if time is not None), key=lambda pair: pair[0])


def _thinned(points: Series) -> Series:
    if len(points) <= MAX_POINTS:
        return points
    size = -(-len(points) // (MAX_POINTS // 2))
    kept: Series = []
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        ends = {min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])}
        kept.extend(sorted(ends))
    return kept


def _lane(view: View, gpu: str, points: Series, axis: Axis) -> Lane:
    top = _top(view.gpus.get(gpu), max(used for _, used in points))
    drawn = tuple(Point(axis.x(time), _y(used, top)) for time, used in points)
    return Lane(gpu, view.gpu_name(gpu), _mib(top), drawn, _stretches(points, drawn), _words(points))


def _top(gpu: Gpu | None, highest: float) -> float:
    """A line near the bottom edge tells nothing; its own scale is labelled."""
    whole = (gpu.total_mib if gpu else None) or 0.0
    return max(whole, highest, 1.0) if highest >= whole * SMALL_SHARE else highest / HEADROOM


def _y(used: float, top: float) -> float:
    return round(HEIGHT * (1 - max(used, 0.0) / top), 1)


def _stretches(points: Series, drawn: tuple[Point, ...]) -> tuple[Stretch, ...]:
    """Runs of points that were measured one after the other, and what joins the runs."""
    gaps = [(later[0] - earlier[0]).total_seconds() for earlier, later in pairwise(points)]
    # With fewer than three gaps there is no usual one to measure against.
    usual = median(gaps) if len(gaps) >= 3 else 0.0
    stretches: list[Stretch] = []
    run = list(drawn[:1])
    for gap, point in zip(gaps, drawn[1:], strict=True):
        if gap <= usual * _GAP_FACTOR:
            run.append(point)
            continue
        if len(run) > 1:
            stretches.append(Stretch(tuple(run), measured=True))
        stretches.append(Stretch((run[-1], point), measured=False))
        run = [point]
    if len(run) > 1:
        stretches.append(Stretch(tuple(run), measured=True))
    return tuple(stretches)


def _words(points: Series) -> str:
    values = [used for _, used in points]
    first, last = points[0], points[-1]
    if len(points) == 1:
        return f"{_mib(first[1])} at {first[0]:%H:%M:%S} UTC, the only measurement."
    span = f"{plural(len(points), 'measurement')} from {first[0]:%H:%M:%S} to {last[0]:%H:%M:%S} UTC"
    if _mib(min(values)) == _mib(max(values)):
        return f"{_mib(first[1])} in all {span}."
    return (
        f"{_mib(first[1])} at {first[0]:%H:%M:%S}, {_mib(last[1])} at {last[0]:%H:%M:%S} UTC; "
        f"lowest {_mib(min(values))}, highest {_mib(max(values))}, {plural(len(points), 'measurement')}."
    )


def _mib(value: float) -> str:
    """A drawing shows no tenths of a MiB."""
    return mib(round(value) if value >= 10 else value)
