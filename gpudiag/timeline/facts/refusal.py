"""Resets, MIG changes and module unloads that were refused, and who has the device."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.model import Refusal
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.incident import Incident

KINDS = {
    "gpu_reset": "GPU reset",
    "mig_change": "change of the MIG layout",
    "module_unload": "module unload",
}
_CLIENTS = frozenset({"nvidia_drm", "nvidia_peermem", "nv_peer_mem", "gdrdrv", "nvidia_fs", "nvidia_vgpu_vfio"})
"""Modules that use the driver from inside the kernel: no process has a device open on their account."""


def refusal_rows(incident: Incident) -> Iterator[Row]:
    """One row a refusal."""
    for refusal in incident.parsed.refusals:
        yield _row(incident, refusal)


def _row(incident: Incident, refusal: Refusal) -> Row:
    host = refusal.at.host
    gpu = incident.gpus.of(host, refusal.gpu)
    openers = _openers(incident, host)
    clients = _clients(incident, host)
    return {
        "host": incident.host_id(host),
        "gpus": [gpu.id] if gpu is not None else [],
        "kind": KINDS.get(refusal.kind, refusal.kind),
        "module": refusal.module,
        "reason": refusal.reason,
        "openers": openers,
        "nobody_open": None if openers is None else not openers,
        "kernel_clients": clients,
        "cites": incident.citations.add_all([refusal.cited]),
    }


def _openers(incident: Incident, host: str) -> list[str] | None:
    """Who has a device open in the newest look that asked; ``None`` where none did."""
    asked = {c.at.look for c in incident.parsed.coverage if c.source == "open handles" and c.outcome == "ok"}
    looks = [look for look in incident.looks if look.host == host and look.id in asked]
    if not looks:
        return None
    rows = {row.pid for row in incident.parsed.handles if row.at.look == looks[-1].id}
    lives = [life for life in incident.census.lives if looks[-1].id in life.sightings and life.pid in rows]
    return [f"{life.title or 'process'} ({life.pid})" for life in lives if life.host == host]


def _clients(incident: Incident, host: str) -> list[str] | None:
    modules = [row for row in incident.parsed.modules if row.at.host == host]
    if not modules:
        return None
    return sorted({row.name for row in modules if row.name in _CLIENTS})
