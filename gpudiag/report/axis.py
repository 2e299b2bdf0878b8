"""The time axis that memory, commands, processes and events of a report share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gpudiag.report.text import parse_time
from gpudiag.report.view import View

WIDTH: Final = 1000.0
"""From the left edge to the right one, in units of the drawing."""
MARGIN: Final = 0.02
"""Share of the width that stays free at both ends, so that a mark at an end is seen whole."""

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


def of_report(view: View) -> Axis | None:
    """From the earliest to the latest of what was measured, looked at and done; ``None`` without any time."""
    report = view.report
    written = [
        *(sample.time for sample in report.samples if sample.used_mib is not None),
        *(look.time for look in report.looks),
        *(action.time for action in report.actions),
    ]
    times = [time for text in written if (time := parse_time(text)) is not None]
    return Axis(min(times), max(times)) if times else None
