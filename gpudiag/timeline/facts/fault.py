"""What the driver and the kernel say about the state of each GPU, beyond its memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpudiag.model import GpuReading, GpuRef, KernelEvent
from gpudiag.parse.values import is_fault
from gpudiag.timeline.facts.kernel import RECOVERY_XID, RESET_XIDS, events_of, log_read
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.gpus import Gpu
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.order import SECOND

NEAR_S = 3600
"""An error this close to the last command or the newest look belongs to the incident."""
_WANTED = re.compile(r"recovery action changed from .{1,60}? to 0x[0-9a-fA-F]{1,8} \(([^)]{1,60})\)")
_NOTHING = frozenset({"none", "n/a", "[n/a]"})


@dataclass(frozen=True)
class _Subject:
    """A GPU by what is known of it: its place in the evidence, its address, or nothing."""

    host: str
    gpu: Gpu | None
    bus_id: str | None


def fault_rows(incident: Incident) -> Iterator[Row]:
    """One row a GPU, also for one that only the kernel names; one for a host whose GPU nobody names."""
    for host in incident.hosts():
        for subject in _subjects(incident, host):
            yield _row(incident, subject)


def _subjects(incident: Incident, host: str) -> Sequence[_Subject]:
    own = [gpu for gpu in incident.gpus.gpus if gpu.host == host]
    found = [_Subject(host, gpu, gpu.bus_id) for gpu in own]
    named = [event.bus_id for event in _driver_events(incident, host)]
    named += [reading.gpu.bus_id for reading in _readings(incident, host)]
    buses = dict.fromkeys(bus for bus in named if bus is not None)
    strangers = [bus for bus in buses if incident.gpus.of(host, GpuRef(bus_id=bus)) is None and not _is_only_gpu(own)]
    found += [_Subject(host, None, bus) for bus in strangers]
    return found or [_Subject(host, None, None)]


def _is_only_gpu(own: Sequence[Gpu]) -> bool:
    """One GPU, and no source told its address: what the kernel says is about this one."""
    return len(own) == 1 and own[0].bus_id is None


def _driver_events(incident: Incident, host: str) -> list[KernelEvent]:
    """In the order of the log: what the driver says last of a recovery counts."""
    found = events_of(incident, host, "xid", "off_bus")
    return sorted(found, key=lambda event: (event.cited.input, event.cited.member, event.cited.line or 0))


def _readings(incident: Incident, host: str) -> list[GpuReading]:
    """Readings that were taken after the last command that changed anything."""
    last = incident.last_effect(host)
    positions = {look.id: look.position for look in incident.looks if last is None or look.position > last.slot}
    return [row for row in incident.parsed.readings if row.at.host == host and row.at.look in positions]


def _is_about(subject: _Subject, gpu: Gpu | None, bus: str | None, incident: Incident) -> bool:
    if subject.gpu is not None:
        own = [other for other in incident.gpus.gpus if other.host == subject.host]
        return gpu is subject.gpu or (gpu is None and _is_only_gpu(own))
    return bus == subject.bus_id


def _row(incident: Incident, subject: _Subject) -> Row:
    host = subject.host
    events = [
        event
        for event in _driver_events(incident, host)
        if _is_about(subject, _gpu_at(incident, host, event.bus_id), event.bus_id, incident)
    ]
    readings = [
        row
        for row in _readings(incident, host)
        if _is_about(subject, incident.gpus.of(host, row.gpu), row.gpu.bus_id, incident)
    ]
    read = log_read(incident, host) or bool(events)
    words = [row for row in readings if row.words is not None and is_fault(row.words)]
    recovery = _recovery(readings, events)
    fatal = [event for event in events if event.xid in RESET_XIDS]
    answers = _answers(incident, subject, words)
    wanted = None if recovery is None else recovery.lower() not in _NOTHING
    ledger = incident.ledgers.get(subject.gpu.id) if subject.gpu is not None else None
    return {
        "host": incident.host_id(host),
        "gpus": [subject.gpu.id] if subject.gpu is not None else [],
        "fault_gpu": subject.gpu.id if subject.gpu is not None else subject.bus_id,
        "words": words[-1].words if words else None,
        "tool_says_fault": bool(words) if readings or answers is not None else None,
        "off_bus": any(event.kind == "off_bus" for event in events) if read else None,
        "recovery": recovery if wanted else None,
        "recovery_wanted": wanted,
        "reset_xids": list(dict.fromkeys(str(event.xid) for event in fatal)) if read else None,
        "recent": _recent(incident, host, fatal or events) if events else None,
        "answers": answers,
        "unowned_mib": ledger.total("unattributed") + ledger.total("dead_process") if ledger is not None else None,
        "cites": incident.citations.add_all([row.cited for row in (*words[-3:], *(fatal or events)[-3:])]),
    }


def _gpu_at(incident: Incident, host: str, bus: str | None) -> Gpu | None:
    return incident.gpus.of(host, GpuRef(bus_id=bus)) if bus is not None else None


def _recovery(readings: Sequence[GpuReading], events: Sequence[KernelEvent]) -> str | None:
    """The recovery that the driver wants, in its own words: what it says now, else the last that it logged."""
    now = [row.words for row in readings if row.field == "recovery_action" and row.words]
    logged = [m[1] for event in events if event.xid == RECOVERY_XID and (m := _WANTED.search(event.text))]
    return now[-1] if now else logged[-1] if logged else None


def _answers(incident: Incident, subject: _Subject, words: Sequence[GpuReading]) -> bool | None:
    """nvidia-smi gave plain figures of it after the last command; ``False``: it could not."""
    last = incident.last_effect(subject.host)
    later = {look.id for look in incident.looks if last is None or look.position > last.slot}
    if words:
        return False
    if subject.gpu is not None:
        samples = [s for s in incident.parsed.samples if s.at.host == subject.host and s.at.look in later]
        if any(s.used_mib is not None and incident.gpus.of(s.at.host, s.gpu) is subject.gpu for s in samples):
            return True
    rows = [
        c
        for c in incident.parsed.coverage
        if c.at.host == subject.host and c.source == "gpu memory" and (c.at.look is None or c.at.look in later)
    ]
    return False if any(row.outcome in ("timed_out", "absent") for row in rows) else None


def _recent(incident: Incident, host: str, events: Sequence[KernelEvent]) -> bool | None:
    """The last of these messages lies near the last command or the newest look; unknown where the times are."""
    look, last = incident.newest(host), incident.last_action(host)
    marks = [time for time in (last.action.time_ns if last else None, look.end_ns if look else None) if time]
    times = [event.time_ns for event in events if event.time_ns is not None]
    if not marks or not times:
        return None
    return min(abs(mark - max(times)) for mark in marks) <= NEAR_S * SECOND
