"""Memory that moved: the driver books a shared block on its owner, and after its death on whoever has it mapped.

Measured with CUDA IPC: the importer showed its own context only (518 MiB); when the exporter was killed, the block was
booked on the importer (5,638 MiB) until that ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import UNKNOWN_GPU, Life
from gpudiag.timeline.order import Look

CONTEXT_MIB = 700.0
"""Most that a context takes, which is not shared (250 to 600 MiB, measured)."""
SLACK_MIB = 32.0
LEAST_MIB = 256.0
"""Smaller growth may be anything."""


@dataclass(frozen=True)
class Takeover:
    """One living process whose figure grew by what a dead one had."""

    owner: Life
    """The dead one."""
    gpu: str
    mib: float


def takeovers(incident: Incident, life: Life) -> list[Takeover]:
    """By GPU: what it holds more than before the command that ended another process there, if it fits that one's."""
    look = incident.newest(life.host)
    if look is None or incident.alive(life) is not True or incident.was_picked(life):
        return []
    found: list[Takeover] = []
    for gpu, now in incident.booked_now(life).items():
        action = incident.last_effect(life.host)
        before = _look_before(incident, action, life) if action is not None else None
        if now is None or gpu == UNKNOWN_GPU or before is None:
            continue
        grown = now - (life.sightings[before.id].held().get(gpu) or now)
        if grown < LEAST_MIB:
            continue
        owners = [one for one in incident.census.lives if _ended(incident, one) and _fits(one, before, gpu, grown)]
        if len(owners) == 1 and not _others_grew(incident, life, before, gpu):
            found.append(Takeover(owners[0], gpu, grown))
    return found


def _look_before(incident: Incident, action: ActionView, life: Life) -> Look | None:
    """The last look before the command that has a figure of it."""
    seen = [one for one in life.sightings.values() if one.look.position < action.slot and one.bookings]
    return seen[-1].look if seen and incident.newest(life.host) is not seen[-1].look else None


def _fits(owner: Life, before: Look, gpu: str, grown: float) -> bool:
    seen = owner.sightings.get(before.id)
    had = seen.held().get(gpu) if seen is not None else None
    return had is not None and had - CONTEXT_MIB <= grown <= had + SLACK_MIB


def _ended(incident: Incident, life: Life) -> bool:
    """A command picked it, and the newest look books nothing on it."""
    return not incident.booked_now(life) and incident.alive(life) is not True and incident.was_picked(life)


def _others_grew(incident: Incident, life: Life, before: Look, gpu: str) -> bool:
    """Somebody else there grew as well: whose the block is now cannot be told."""
    for other in incident.census.lives:
        seen = other.sightings.get(before.id)
        had, now = seen.held().get(gpu) if seen is not None else None, incident.booked_now(other).get(gpu)
        if other is not life and had is not None and now is not None and now - had >= LEAST_MIB:
            return True
    return False
