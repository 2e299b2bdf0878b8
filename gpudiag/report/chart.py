"""Where the points of the timeline go: used memory of each GPU over time, with the actions as marks.

Coordinates are those of the template's view box. Only measured points are drawn; a line between two of
them is dashed where nothing was measured for long, because a gap is not a plateau.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Final

from gpudiag.report.contract import Gpu, Sample
from gpudiag.report.text import mib, parse_time, plural
from gpudiag.report.view import View

WIDTH: Final = 360
HEIGHT: Final = 136
LEFT, RIGHT, TOP, BOTTOM = 8.0, 352.0, 24.0, 108.0
MAX_POINTS: Final = 400
"""Points of one line; more are thinned, keeping the lowest and the highest of each stretch."""
MAX_MARKS: Final = 200
MAX_MARK_ERROR_S: Final = 60.0
"""An event whose time may be further off than this has no place on the axis."""
_LABEL_ROOM: Final = 30.0
"""Closer labels than this would overlap."""
_GAP_FACTOR: Final = 5
"""A stretch this many times longer than the usual one counts as not measured."""


@dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True)
class Segment:
    start: Point
    end: Point
    measured: bool
    """False if the time between its ends is long against the others."""


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
    """Value at the top edge: the GPU's memory, or the highest sample where that is not known."""
    points: tuple[Point, ...]
    segments: tuple[Segment, ...]
    words: str
    """What the line shows, for those who cannot see it; the name is not in it."""


@dataclass(frozen=True)
class Chart:
    lanes: tuple[Lane, ...]
    actions: tuple[Mark, ...]
    events: tuple[Mark, ...]
    start: str
    end: str


@dataclass(frozen=True)
class _Axis:
    first: datetime
    last: datetime

    def x(self, time: datetime) -> float:
        span = (self.last - self.first).total_seconds()
        share = (time - self.first).total_seconds() / span if span else 0.5
        return round(LEFT + share * (RIGHT - LEFT), 2)

    def covers(self, time: datetime) -> bool:
        return self.first <= time <= self.last


Series = list[tuple[datetime, float]]


def build(view: View) -> Chart | None:
    """The chart; ``None`` where no sample has both a time and a value."""
    series = _series(view)
    if not series:
        return None
    acted = _timed([(action.time, action.id) for action in view.report.actions])
    times = [time for points in series.values() for time, _ in points] + [time for time, _ in acted]
    axis = _Axis(min(times), max(times))
    placed = [event for event in view.report.events if (event.time_error_s or 0) <= MAX_MARK_ERROR_S]
    happened = [pair for pair in _timed([(event.time, "") for event in placed]) if axis.covers(pair[0])]
    form = "%H:%M:%S" if axis.first.date() == axis.last.date() else "%Y-%m-%d %H:%M:%S"
    return Chart(
        lanes=tuple(_lane(view, gpu, points, axis) for gpu, points in series.items()),
        actions=_marks(acted, axis),
        events=_marks(happened[:MAX_MARKS], axis),
        start=axis.first.strftime(form),
        end=axis.last.strftime(form) if axis.last > axis.first else "",
    )


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


def _lane(view: View, gpu: str, points: Series, axis: _Axis) -> Lane:
    known: Gpu | None = view.gpus.get(gpu)
    highest = max(used for _, used in points)
    top = max(highest, (known.total_mib if known else None) or 0.0, 1.0)
    drawn = tuple(Point(axis.x(time), _y(used, top)) for time, used in points)
    name = view.gpu_name(gpu)
    return Lane(gpu, name, top, drawn, _segments(points, drawn), _words(points))


def _y(used: float, top: float) -> float:
    return round(BOTTOM - max(used, 0.0) / top * (BOTTOM - TOP), 2)


def _segments(points: Series, drawn: tuple[Point, ...]) -> tuple[Segment, ...]:
    gaps = [(later[0] - earlier[0]).total_seconds() for earlier, later in pairwise(points)]
    # With fewer than three gaps there is no usual one to measure against.
    usual = median(gaps) if len(gaps) >= 3 else 0.0
    ends = zip(pairwise(drawn), gaps, strict=True)
    return tuple(Segment(start, end, gap <= usual * _GAP_FACTOR) for (start, end), gap in ends)


def _words(points: Series) -> str:
    values = [used for _, used in points]
    first, last = points[0], points[-1]
    if len(points) == 1:
        return f"{mib(first[1])} at {first[0]:%H:%M:%S} UTC, the only measurement."
    return (
        f"{mib(first[1])} at {first[0]:%H:%M:%S}, {mib(last[1])} at {last[0]:%H:%M:%S} UTC; "
        f"lowest {mib(min(values))}, highest {mib(max(values))}, {plural(len(points), 'point')}."
    )


def _marks(timed: list[tuple[datetime, str]], axis: _Axis) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    labelled = -_LABEL_ROOM
    for time, label in timed[:MAX_MARKS]:
        x = axis.x(time)
        fits = x - labelled >= _LABEL_ROOM
        marks.append(Mark(x, label if fits else ""))
        labelled = x if fits else labelled
    return tuple(marks)
