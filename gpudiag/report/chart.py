"""The timeline: used memory of each GPU, the clean-up commands, the processes and the events over one time axis.

Horizontal places are those of :mod:`gpudiag.report.axis`; vertical ones go from 0, the top edge, to HEIGHT. Only
measured points are drawn; a line between two of them is dashed where nothing was measured for long, because a gap is
not a plateau.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Final

from gpudiag.report import axis as axes
from gpudiag.report import lifelines
from gpudiag.report.axis import Axis
from gpudiag.report.contract import Gpu, Sample
from gpudiag.report.lifelines import Lifeline
from gpudiag.report.text import mib, parse_time, plural
from gpudiag.report.view import View

HEIGHT: Final = 100.0
MAX_POINTS: Final = 400
"""Points of one line; more are thinned, keeping the lowest and the highest of each stretch."""
MAX_DOTS: Final = 60
"""Points that are drawn as dots too; more would touch each other."""
SMALL_SHARE: Final = 0.4
"""Below this share of the GPU's memory a line gets a scale of its own."""
HEADROOM: Final = 0.8
"""Share of the height that such a line reaches."""
MAX_MARKS: Final = 200
MAX_MARK_ERROR_S: Final = 60.0
"""An event whose time may be further off than this has no place on the axis."""
_LABEL_ROOM: Final = 40.0
"""Closer labels than this would overlap."""
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
class Lane:
    """The line of one GPU."""

    gpu: str
    name: str
    top_mib: float
    """Value at the top edge: the GPU's memory, or less where only a small part of it was ever in use."""
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
    actions: tuple[Mark, ...]
    events: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    """Labelled moments of the axis."""


Series = list[tuple[datetime, float]]


def build(view: View) -> Chart | None:
    """The timeline; ``None`` where nothing that it could draw has a time."""
    axis = axes.of_report(view)
    if axis is None:
        return None
    series = _series(view)
    lives = lifelines.build(view, axis) if axis.last > axis.first else ()
    if not series and not lives:
        return None
    acted = _timed([(action.time, action.id) for action in view.report.actions])
    placed = [event for event in view.report.events if (event.time_error_s or 0) <= MAX_MARK_ERROR_S]
    happened = [pair for pair in _timed([(event.time, "") for event in placed]) if axis.covers(pair[0])]
    return Chart(
        lanes=tuple(_lane(view, gpu, points, axis) for gpu, points in series.items()),
        lifelines=lives,
        actions=_marks(acted, axis),
        events=_marks(happened[:MAX_MARKS], axis),
        ticks=_ticks(axis),
    )


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
    return {gpu: _thinned(sorted(points)) for gpu, points in series.items() if points}


def _timed_sample(sample: Sample) -> tuple[datetime, float] | None:
    time = parse_time(sample.time)
    return None if time is None or sample.used_mib is None else (time, sample.used_mib)


def _timed(pairs: list[tuple[str | None, str]]) -> list[tuple[datetime, str]]:
    parsed = [(parse_time(time), label) for time, label in pairs]
    return sorted((time, label) for time, label in parsed if time is not None)


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
    return Lane(gpu, view.gpu_name(gpu), top, drawn, _stretches(points, drawn), _words(points))


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
        return f"{mib(first[1])} at {first[0]:%H:%M:%S} UTC, the only measurement."
    return (
        f"{mib(first[1])} at {first[0]:%H:%M:%S}, {mib(last[1])} at {last[0]:%H:%M:%S} UTC; "
        f"lowest {mib(min(values))}, highest {mib(max(values))}, {plural(len(points), 'point')}."
    )


def _marks(timed: list[tuple[datetime, str]], axis: Axis) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    labelled = -_LABEL_ROOM
    for time, label in timed[:MAX_MARKS]:
        x = axis.x(time)
        fits = x - labelled >= _LABEL_ROOM
        marks.append(Mark(x, label if fits else ""))
        labelled = x if fits else labelled
    return tuple(marks)
