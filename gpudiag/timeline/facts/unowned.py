"""Memory that came back although no process list ever said whose it was: the GPU's own figures, and a server's log."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.gpus import Gpu
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.ledger import Ledger

NOTICEABLE_FALL_MIB = 600.0
"""A smaller fall of an unlisted figure may be a desktop's or the driver's own."""


def unowned_releases(incident: Incident, gpu: Gpu, ledger: Ledger) -> Iterator[Row]:
    """At most one row for a GPU that is idle in its newest figure, and was not before."""
    now = ledger.figure.used_mib
    before = _last_busy(incident, gpu, ledger)
    if before is not None:
        level, position = before
        action = _between(incident, gpu, position, ledger)
        yield {
            "host": incident.host_id(gpu.host),
            "gpus": [gpu.id],
            "step": action.steps[0].id if action is not None and action.steps else None,
            "held_mib": level,
            "fell_mib": level - now,
            "came_back_mib": level - now,
            "action_seen": action is not None,
            "target_family": True if action is not None else None,
            "cites": incident.citations.add_all([ledger.figure.cited]),
        }
        return
    yield from _told_by_log(incident, gpu, ledger)


def _last_busy(incident: Incident, gpu: Gpu, ledger: Ledger) -> tuple[float, int] | None:
    """The last earlier figure that is clearly above the newest, with the place of its look."""
    positions = {look.id: look.position for look in incident.looks}
    newest = positions.get(ledger.figure.look or "", len(positions))
    for look in reversed(incident.looks):
        figure = incident.memory.at_look(gpu, look.id) if look.position < newest else None
        if figure is not None and figure - ledger.figure.used_mib >= NOTICEABLE_FALL_MIB:
            return figure, look.position
    return None


def _between(incident: Incident, gpu: Gpu, position: int, ledger: Ledger) -> ActionView | None:
    """The last command between the two figures, on whatever host: an importer on another node may hold memory here."""
    positions = {look.id: look.position for look in incident.looks}
    newest = positions.get(ledger.figure.look or "", len(positions))
    given = [action for action in incident.actions if position < action.slot < newest]
    own = [action for action in given if action.host == gpu.host]
    return (own or given or [None])[-1]


def _told_by_log(incident: Incident, gpu: Gpu, ledger: Ledger) -> Iterator[Row]:
    """A start saw somebody else's memory come free; on the host's only GPU that figure is this one's."""
    alone = len([other for other in incident.gpus.gpus if other.host == gpu.host]) == 1
    events = [event for event in incident.parsed.log_events if event.kind == "memory_freed" and event.mib]
    own = [event for event in events if event.host in ("", gpu.host)]
    if alone and own:
        yield {
            "host": incident.host_id(gpu.host),
            "gpus": [gpu.id],
            "held_mib": own[-1].mib,
            "came_back_mib": own[-1].mib,
            "action_seen": False,
            "cites": incident.citations.add_all([own[-1].cited, ledger.figure.cited]),
        }
