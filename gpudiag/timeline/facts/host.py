"""What holds for a whole host: whether the driver answers at all, and whether times can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudiag.model import Coverage
from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.order import SECOND, Look, told_to_recorder

_DRIVER_SOURCES = frozenset({"gpu memory", "compute processes"})
_BY_POSITION = frozenset({"transcript"})
"""Commands that stand in one text with what was seen: the order of the lines decides."""


def host_rows(incident: Incident) -> Iterator[Row]:
    """One row a host."""
    for host in incident.hosts():
        asked = [c for c in incident.parsed.coverage if c.at.host == host and c.source in _DRIVER_SOURCES]
        late = [row for row in asked if row.outcome == "timed_out"]
        yield {
            "host": incident.host_id(host),
            "gpus": [],
            "query_timed_out": bool(late) if asked else None,
            "query": _query(late),
            "answered_later": _answered_later(incident, late, asked),
            "cites": incident.citations.add_all([row.cited for row in late[:3] if row.cited is not None]),
        }


def _query(late: Sequence[Coverage]) -> str | None:
    return next((row.cited.quote for row in reversed(late) if row.cited is not None), None)


def _answered_later(incident: Incident, late: Sequence[Coverage], asked: Sequence[Coverage]) -> bool | None:
    if not late:
        return None
    positions = {look.id: look.position for look in incident.looks}
    last = max(positions.get(row.at.look or "", -1) for row in late)
    return any(row.outcome == "ok" and positions.get(row.at.look or "", -1) > last for row in asked)


def order_rows(incident: Incident) -> Iterator[Row]:
    """One row a command and the newest look, where they come from different records."""
    for action in incident.actions:
        look = incident.newest(action.host)
        if look is not None and action.action.source not in _BY_POSITION:
            yield _order(incident, action, look)


def _order(incident: Incident, action: ActionView, look: Look) -> Row:
    time, start = action.action.time_ns, look.start_ns
    error = action.action.time_error_ns + _look_error(incident, look)
    distance = None if time is None or start is None else abs(start - time)
    return {
        "host": incident.host_id(action.host),
        "gpus": [],
        "step": action.steps[0].id if action.steps else None,
        "step_text": action.action.text,
        "distance_s": None if distance is None else distance / SECOND,
        "error_s": error / SECOND if distance is not None else None,
        "order_known": _order_known(action, distance, error),
        "cites": incident.citations.add_all([action.action.cited]),
    }


def _order_known(action: ActionView, distance: int | None, error: int) -> bool | None:
    """By the times; a recorder's command without one was given between its looks, one stated to it before them."""
    if told_to_recorder(action.action):
        return True
    if distance is not None:
        return distance > error
    between = action.action.source == "recorded" and action.action.after_look is not None
    return True if between else None


def _look_error(incident: Incident, look: Look) -> int:
    rows = (*incident.parsed.samples, *incident.parsed.bookings, *incident.parsed.processes)
    return max((row.at.time_error_ns for row in rows if row.at.look == look.id), default=0)
