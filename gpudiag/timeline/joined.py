"""Looks of a transcript that only a command without effect parts are one look.

A transcript is cut into looks at its kill commands. Where such a command reached nobody (``No such process``, a refused
reset), what was printed before it is as true behind it, and only together do the parts say who holds the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

from gpudiag.model import KillAction, Place
from gpudiag.parse.parsed import Parsed
from gpudiag.timeline.incident import EngineBook, Incident, build_incident
from gpudiag.timeline.order import Look


def incident_of(parsed: Parsed, book: EngineBook) -> Incident:
    """The incident of all rows, with such looks taken together."""
    incident = build_incident(parsed, book)
    together = _joined(incident)
    return incident if together is None else build_incident(together, book)


def _joined(incident: Incident) -> Parsed | None:
    names: dict[str, str] = {}
    for host in incident.hosts():
        for earlier, later in pairwise([look for look in incident.looks if look.host == host]):
            if _nothing_happened_between(incident, earlier, later):
                names[later.id] = names.get(earlier.id, earlier.id)
    return _renamed(incident.parsed, names) if names else None


def _nothing_happened_between(incident: Incident, earlier: Look, later: Look) -> bool:
    between = [
        action
        for action in incident.actions
        if action.host == earlier.host and earlier.position < action.slot < later.position
    ]
    from_transcript = all(action.action.source == "transcript" for action in between)
    return bool(between) and from_transcript and all(incident.was_without_effect(action) for action in between)


def _renamed(parsed: Parsed, names: Mapping[str, str]) -> Parsed:
    rows: dict[str, Any] = {
        field.name: tuple(_moved(row, names) for row in getattr(parsed, field.name)) for field in fields(parsed)
    }
    rows["looks"] = tuple(look for look in parsed.looks if look.id not in names)
    return replace(parsed, **rows)


def _moved(row: Any, names: Mapping[str, str]) -> Any:
    if isinstance(row, KillAction):
        after = names.get(row.after_look or "")
        return row if after is None else replace(row, after_look=after)
    at = getattr(row, "at", None)
    if not isinstance(at, Place) or at.look is None or at.look not in names:
        return row
    return replace(row, at=replace(at, look=names[at.look]))
