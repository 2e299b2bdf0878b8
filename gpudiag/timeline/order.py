"""The order of looks and commands on one clock, with its uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from gpudiag.evidence.exhibit import LookName
from gpudiag.model import ClockPair, KillAction, Place, Process

SECOND = 1_000_000_000
TICKS_PER_SECOND = 100
"""``USER_HZ``: the unit of start times in ``/proc/PID/stat`` on every Linux that runs a GPU server."""

_READ_DELAY_NS = SECOND // 5
"""``ps`` reads a little later than the time that is written above its output."""


@dataclass(frozen=True)
class Look:
    """One round of observation on one host."""

    id: str
    name: str
    host: str
    position: int
    """Place in the sequence of looks of the incident, from 0."""
    start_ns: int | None
    end_ns: int | None
    recalled: bool = False
    """Put together from a flight recorder's ring: what is said of *the* recorder's looks is not said of this one."""


@dataclass(frozen=True)
class Clock:
    """Ties a host's boot clock to wall time."""

    boot_wall_ns: int
    error_ns: int

    def at(self, seconds_since_boot: float) -> int:
        """Wall time of an instant on the boot clock."""
        return self.boot_wall_ns + round(seconds_since_boot * SECOND)


def order_looks(names: Sequence[LookName], places: Iterable[Place]) -> tuple[Look, ...]:
    """Looks with the time span of their rows, earliest first; without times the input's order stands."""
    spans: dict[str, list[int]] = {}
    for place in places:
        if place.look is not None and place.time_ns is not None:
            spans.setdefault(place.look, []).append(place.time_ns)
    numbered = list(enumerate(names))
    if all(name.id in spans for name in names):
        numbered.sort(key=lambda pair: (min(spans[pair[1].id]), pair[0]))
    return tuple(
        Look(
            id=name.id,
            name=name.name,
            host=name.host,
            position=position,
            start_ns=min(spans[name.id], default=None) if name.id in spans else None,
            end_ns=max(spans[name.id], default=None) if name.id in spans else None,
            recalled=name.recalled,
        )
        for position, (_, name) in enumerate(numbered)
    )


def told_to_recorder(action: KillAction) -> bool:
    """A person stated the command when starting the recorder (``gpudiag collect --kill``): it precedes every look."""
    return action.source == "stated" and action.cited.member == "kill-commands.json"


def slot_of(action: KillAction, looks: Sequence[Look]) -> float:
    """Position of an action between looks: 0.5 lies after look 0. Time decides where both have one."""
    begin = next((look.position for look in looks if not look.recalled), 0) - 0.5
    if told_to_recorder(action):
        recalled = (look for look in looks if look.recalled and look.start_ns is not None)
        earlier = [look.position for look in recalled if (look.start_ns or 0) <= (action.time_ns or 0)]
        return begin if action.time_ns is None else min(begin, max(earlier, default=-1) + 0.5)
    if action.time_ns is not None and any(look.start_ns is not None for look in looks):
        earlier = [look.position for look in looks if look.start_ns is not None and look.start_ns <= action.time_ns]
        return max(earlier, default=-1) + 0.5
    after = next((look.position for look in looks if look.id == action.after_look), None)
    if after is not None:
        return after + 0.5
    return begin


def clock_of(pairs: Sequence[ClockPair], processes: Iterable[Process]) -> Clock | None:
    """The host's boot time: from a recorded pair of clocks, else from the ages (ps) and start ticks (proc) seen."""
    if pairs:
        return Clock(pairs[0].wall_ns - round(pairs[0].boot_s * SECOND), SECOND // TICKS_PER_SECOND)
    rows = list(processes)
    ticks = {(row.at.look, row.pid): row.start_ticks for row in rows if row.start_ticks is not None}
    bounds = [
        _boot_between(row.at.time_ns, row.elapsed_s, ticks[(row.at.look, row.pid)])
        for row in rows
        if row.elapsed_s is not None and row.at.time_ns is not None and (row.at.look, row.pid) in ticks
    ]
    if not bounds:
        return None
    earliest, latest = max(low for low, _ in bounds), min(high for _, high in bounds)
    if earliest <= latest:
        return Clock((earliest + latest) // 2, (latest - earliest) // 2 + _READ_DELAY_NS)
    # The wall clock was set between the looks: no boot time fits all rows.
    return Clock(round(median((low + high) // 2 for low, high in bounds)), SECOND)


def _boot_between(read_ns: int, age_s: float, ticks: int) -> tuple[int, int]:
    """Earliest and latest boot time that one row allows.

    ps cuts the age to whole seconds: procps 4 that of the difference, older ones the uptime and the start each.
    """
    whole, part = divmod(ticks, TICKS_PER_SECOND)
    age_ns = round(age_s * SECOND) + whole * SECOND
    return read_ns - age_ns - SECOND - part * SECOND // TICKS_PER_SECOND, read_ns - age_ns
