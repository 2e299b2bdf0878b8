"""``process-events.jsonl``: beginnings, programs and ends of processes, over netlink or from rounds through /proc."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from gpudiag.model import TraceEvent
from gpudiag.parse.jsontext import integer, mapping, number, text_of
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment

SOURCE = "process events"
_WAYS = {"netlink": "netlink", "polling": "polled"}
_KINDS = frozenset({"fork", "exec", "exit"})


def rows(segment: Segment) -> Iterator[Row]:
    """One event a line; the first line says how they were heard."""
    origin: str | None = None
    because: str | None = None
    for offset, line in enumerate(segment.lines):
        if not line.strip():
            continue
        record = _record(line)
        way = text_of(record.get("way"))
        if origin is None and way in _WAYS:
            origin, because = _WAYS[way or ""], text_of(record.get("because"))
            continue
        event = None if origin is None else _event(segment, offset, record, origin)
        if event is None:
            yield segment.damage(offset, "not a process event")
        else:
            yield event
    if origin == "polled":
        told = f"/proc was looked through over and over, which misses short processes ({because or 'netlink denied'})"
        yield segment.coverage(SOURCE, because=told, complete=False)
    elif origin is not None:
        yield segment.coverage(SOURCE, complete=True)


def _record(line: str) -> Mapping[str, object]:
    try:
        return mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _event(segment: Segment, offset: int, record: Mapping[str, object], origin: str) -> TraceEvent | None:
    kind, pid, clock = text_of(record.get("what")), integer(record.get("pid")), number(record.get("boot"))
    if kind not in _KINDS or pid is None or clock is None:
        return None
    comm = text_of(record.get("comm"))
    return TraceEvent(
        kind=kind,
        clock_s=clock,
        pid=pid,
        comm=comm or "",
        cited=segment.cite(offset),
        target_pid=integer(record.get("child")) if kind == "fork" else None,
        filename=comm if kind == "exec" else None,
        status=integer(record.get("status")) if kind == "exit" else None,
        origin=origin,
    )
