"""Processes that have the device memory of others mapped (CUDA IPC, an NVLink fabric): it stays until they let go."""

from __future__ import annotations

from gpudiag.model import Citation, LogEvent
from gpudiag.timeline.facts.unowned import NOTICEABLE_FALL_MIB
from gpudiag.timeline.families import Family
from gpudiag.timeline.gpus import Gpu
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life
from gpudiag.timeline.order import Look
from gpudiag.timeline.takeover import takeovers


def importer_columns(incident: Incident, family: Family, life: Life) -> dict[str, object]:
    """The columns about imported memory."""
    freed = [mib for gpu in incident.gpus.gpus if (mib := _freed_elsewhere(incident, gpu, life)) is not None]
    sidecar = family.role(life) == "sidecar"
    took = takeovers(incident, life)
    known = bool(life.cmdline or life.comm or life.booked_name)
    return {
        "imports_memory": True if sidecar or freed or took else False if known else None,
        "took_over_mib": sum(item.mib for item in took) if took else None,
        "took_over_from": took[0].owner.pid if took else None,
        "freed_elsewhere": bool(freed),
        "freed_elsewhere_mib": sum(freed) if freed else None,
        "client_lost": sidecar and bool(_lost_clients(incident, life)),
        "sole_holder": sole_holder(incident, life),
    }


def client_citations(incident: Incident, family: Family, life: Life) -> list[Citation]:
    """The last line that shows it."""
    lost = _lost_clients(incident, life) if family.role(life) == "sidecar" else []
    return [event.cited for event in lost[-1:]]


def sole_holder(incident: Incident, life: Life) -> bool:
    """Nobody else who may be alive is booked on its GPUs."""
    beside = (incident.booked_lives.get((life.host, gpu), ()) for gpu in incident.booked_now(life))
    return all(one is life for lives in beside for one in lives)


def _lost_clients(incident: Incident, life: Life) -> list[LogEvent]:
    """A log of its host says that a server for which it works is no longer registered."""
    lost = [event for event in incident.parsed.log_events if event.kind == "client_lost"]
    return [event for event in lost if event.host in ("", life.host)]


def _freed_elsewhere(incident: Incident, gpu: Gpu, life: Life) -> float | None:
    """By how much a GPU of another host fell when this process was ended, and nothing was done on that host.

    Only if a look there had an empty list and found nobody who has a device open, as root.
    """
    newest, ledger = incident.newest(gpu.host), incident.ledgers.get(gpu.id)
    if gpu.host == life.host or newest is None or ledger is None:
        return None
    before = [look for look in incident.looks if look.host == gpu.host and look.position < newest.position]
    if not before or not _nobody_there(incident, before[-1]):
        return None
    earlier = incident.memory.at_look(gpu, before[-1].id)
    between = [action for action in incident.actions if before[-1].position < action.slot < newest.position]
    if earlier is None or len(between) != 1 or between[0].host != life.host or not incident.aims.is_aimed(life):
        return None
    hit = any((v := step.verdict(life.pid)) is not None and v.selected is True for step in between[0].steps)
    fell = earlier - ledger.figure.used_mib
    return fell if hit and fell >= NOTICEABLE_FALL_MIB else None


def _nobody_there(incident: Incident, look: Look) -> bool:
    rows = [row for row in incident.parsed.coverage if row.at.look == look.id and row.outcome == "ok"]
    listed = any(row.source == "compute processes" for row in rows)
    opened = any(row.source == "open handles" and row.as_root and row.complete for row in rows)
    seen = [life.sightings[look.id] for life in incident.census.lives if look.id in life.sightings]
    return listed and opened and not any(one.bookings or one.handles for one in seen)
