"""The time axis that memory, commands, processes and events of a report share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gpudiag.report.text import parse_time
from gpudiag.report.view import View

WIDTH: Final = 1000.0
"""From the left edge to the right one, in units of the drawing."""
MARGIN: Final = 0.02
"""Share of the width that stays free at both ends, so that a mark at an end is seen whole."""

MAX_ERROR_S: Final = 60.0
"""A command or an event whose time may be further off than this has no place on the axis."""
_SQUEEZED: Final = 8
"""Where the whole axis is this many times longer than the part with the commands, that part gets one of its own."""
_LEAD_S: Final = 15.0
"""Shown before the first command, at least."""
_SHORT_S: Final = 10.0
"""An axis that is shorter has ticks that whole seconds would not tell apart."""


@dataclass(frozen=True)
class Axis:
    """Ties moments to places."""

    first: datetime
    last: datetime

    def x(self, time: datetime) -> float:
        """The place of a moment; what lies outside is drawn at the edge."""
        span = (self.last - self.first).total_seconds()
        share = (time - self.first).total_seconds() / span if span else 0.5
        return round(WIDTH * (MARGIN + min(max(share, 0.0), 1.0) * (1 - 2 * MARGIN)), 1)

    def covers(self, time: datetime) -> bool:
        """The moment lies on it."""
        return self.first <= time <= self.last

    def label(self, time: datetime) -> str:
        """With the date only where the axis crosses midnight, with tenths of a second where it is short."""
        shown = time.strftime("%H:%M:%S" if self.first.date() == self.last.date() else "%Y-%m-%d %H:%M:%S")
        short = 0 < (self.last - self.first).total_seconds() < _SHORT_S
        return f"{shown}.{time.microsecond // 100_000}" if short else shown


def placed(time: str | None, error_s: float | None) -> datetime | None:
    """The moment, if it is known well enough to be drawn."""
    return None if (error_s or 0.0) > MAX_ERROR_S else parse_time(time)


def of_report(view: View) -> Axis | None:
    """From the earliest to the latest of what was measured, looked at and done; ``None`` without any time."""
    report = view.report
    written = [
        *(sample.time for sample in report.samples if sample.used_mib is not None),
        *(look.time for look in report.looks),
    ]
    times = [time for text in written if (time := parse_time(text)) is not None]
    times.extend(_acted(view))
    return Axis(min(times), max(times)) if times else None


def around_commands(view: View, whole: Axis) -> Axis | None:
    """The part with the commands and what followed; ``None`` where the whole axis shows it well enough."""
    acted = _acted(view)
    if not acted:
        return None
    after_s = (whole.last - min(acted)).total_seconds()
    lead = timedelta(seconds=max(_LEAD_S, after_s / 4))
    near = Axis(max(min(acted) - lead, whole.first), whole.last)
    return near if whole.last - whole.first > _SQUEEZED * (near.last - near.first) else None


def _acted(view: View) -> list[datetime]:
    times = (placed(action.time, action.time_error_s) for action in view.report.actions)
    return [time for time in times if time is not None]
