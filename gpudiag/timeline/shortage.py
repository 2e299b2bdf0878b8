"""Starts that failed for lack of memory: often all that a person has is the log of the next server."""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.model import LogEvent
from gpudiag.timeline.incident import Incident

_KINDS = frozenset({"low_memory_start", "oom", "memory_in_use", "still_in_use"})


@dataclass(frozen=True)
class Shortage:
    """What the log of a host says about memory that somebody else has."""

    event: LogEvent
    """The last message."""
    holders: dict[int, float | None]
    """PIDs that such messages name, with MiB; in the numbering of the machine that the driver sees."""


def shortage_of(incident: Incident, host: str) -> Shortage | None:
    """The last one, where no figure of the GPU is newer than the commands."""
    if any(incident.gpus.get(gpu).host == host for gpu in incident.ledgers):
        return None
    alone = len(incident.hosts()) == 1
    own = [event for event in incident.parsed.log_events if event.host == host or (alone and not event.host)]
    told = [event for event in own if event.kind in _KINDS]
    if not told:
        return None
    holders = {event.pid: event.mib for event in told if event.kind == "memory_in_use" and event.pid is not None}
    main = [event for event in told if event.kind != "memory_in_use"]
    return Shortage((main or told)[-1], holders)
