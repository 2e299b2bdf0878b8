"""Left of a killed server where nobody listed who holds memory: WSL2, a container, or a list that was not taken."""

from __future__ import annotations

from gpudiag.timeline.facts.baseline import above_baseline
from gpudiag.timeline.families import Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life
from gpudiag.timeline.orphans import is_orphan, orphan_is_shown

_WORKING = frozenset({"engine", "worker"})


def is_unlisted_orphan(incident: Incident, family: Family, life: Life) -> bool:
    """An engine's own process that outlived the server that a command ended, while memory is in use.

    Only where the newest look asked nobody who holds memory or has a device open, and no earlier list was without its
    family; the loss of the server has to be shown, and all of the family belong to what the commands were aimed at.
    """
    look = incident.newest(life.host)
    if look is None or not incident.device_untold(look) or family.role(life) not in _WORKING:
        return False
    if family.engine is None or not incident.aims.is_aimed(life) or incident.alive(life) is not True:
        return False
    if not _in_use(incident, life.host) or not _fits_earlier_lists(incident, family):
        return False
    return is_orphan(incident, family, life) is True and orphan_is_shown(incident, family, life)


def _in_use(incident: Incident, host: str) -> bool:
    """A GPU of the host has more in use than an idle one."""
    return any(above_baseline(book) for gpu, book in incident.ledgers.items() if incident.gpus.get(gpu).host == host)


def _fits_earlier_lists(incident: Incident, family: Family) -> bool:
    looks = {c.at.look for c in incident.parsed.coverage if c.source == "compute processes" and c.outcome == "ok"}
    own = [look for look in incident.looks if look.host == family.host and not incident.is_blind(look)]
    listed = any(look.id in looks for look in own)
    return not listed or any(seen.bookings for life in family.members for seen in life.sightings.values())
