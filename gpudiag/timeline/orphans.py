"""Who outlived the server it belongs to. Wrongly called an orphan, a healthy process would be killed.

A dead group leader proves nothing: the leader may have been a script that started a server and ended, and then the
server's parent is PID 1 too. So an adopted process counts as an orphan only with a positive sign: its server was seen
alive and is dead, its own words say that it is an engine's child, or the shape of what is left can only be a remainder.
"""

from __future__ import annotations

from itertools import pairwise

from gpudiag.timeline.families import Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.kinship import is_shell, starts_no_engine
from gpudiag.timeline.lives import Life
from gpudiag.timeline.order import SECOND, TICKS_PER_SECOND

CHILD_ROLES = frozenset({"engine", "worker", "tracker"})
HEAD_ROLES = frozenset({"server", "launcher"})
_TOGETHER_S = 2
"""An engine and its resource tracker are started within this time of each other."""


def is_orphan(incident: Incident, family: Family, life: Life) -> bool | None:
    """It lives and its server does not; ``None`` = the evidence does not tell."""
    alive = incident.alive(life)
    if alive is False:
        return False
    chain = _ancestors(incident, family, life)
    top = _top_alive(incident, life, chain)
    if family.role(top) in HEAD_ROLES and incident.alive(top) is True:
        return False
    if any(_is_dead(incident, above, below) for below, above in pairwise([life, *chain]) if not is_shell(above)):
        return True
    if was_reparented(top) and family.role(top) in CHILD_ROLES:
        return True
    if _is_titled_child_of_init(incident, family, top):
        return True
    if was_adopted(top):
        known = family.role(top) in CHILD_ROLES
        return True if known or _is_remainder(incident, family, top) else None
    if any(incident.alive(above) is None for above in chain):
        return None
    return False if family.root is not None and incident.alive(family.root) is True else None


def orphan_is_shown(incident: Incident, family: Family, life: Life) -> bool:
    """Looks show the loss (a dead ancestor, a parent that changed); not only a title or start times speak for it."""
    chain = _ancestors(incident, family, life)
    line = [life, *chain]
    if any(incident.kinship.is_guessed(below) for below in line):
        return False
    top = _top_alive(incident, life, chain)
    seen = any(_is_dead(incident, above, below) for below, above in pairwise(line) if not is_shell(above))
    return seen or was_reparented(top) or was_adopted(top)


def was_reparented(life: Life) -> bool:
    """Its parent's PID changed between two looks, which happens in one way only: the parent died."""
    parents = {row.ppid for seen in life.sightings.values() for row in seen.rows if row.ppid is not None}
    return len(parents) > 1


def _is_dead(incident: Incident, above: Life, below: Life) -> bool:
    """The parent is dead: a look shows that, or its child was handed to another one."""
    return incident.alive(above) is False or (was_reparented(below) and incident.kinship.parent(below) is above)


def _is_titled_child_of_init(incident: Incident, family: Family, top: Life) -> bool:
    """PID 1 is the parent of what its own title calls an engine's child, and no look shows its process group.

    Only where the driver lists it, or what it started, under the same PID: in a container PID 1 may be the engine's
    server itself, and there the driver's PIDs are not those of ``ps``. An engine with workers holds nothing itself.
    """
    parents = {row.ppid for seen in top.sightings.values() for row in seen.rows if row.ppid is not None}
    if parents != {1} or top.integer("pgid") is not None or family.role(top) not in CHILD_ROLES:
        return False
    own = [top, *(life for life in family.members if incident.kinship.parent(life) is top)]
    both = any(seen.in_table and seen.bookings for life in own for seen in life.sightings.values())
    first = [life for life in incident.census.named(top.host, 1) if incident.alive(life) is not False]
    return both and all(starts_no_engine(life) and not incident.booked_now(life) for life in first)


def was_adopted(life: Life) -> bool:
    """PID 1 is its parent and it leads no process group: init did not start it so, its own parent died.

    Not where PID 1 leads the group itself: a container's first process starts its children that way.
    """
    group = life.integer("pgid")
    parents = {row.ppid for seen in life.sightings.values() for row in seen.rows if row.ppid is not None}
    return 1 in parents and group not in (None, 0, 1, life.pid)


def _ancestors(incident: Incident, family: Family, life: Life) -> list[Life]:
    """Ancestors within the family, nearest first."""
    chain: list[Life] = []
    above = incident.kinship.parent(life)
    while above is not None and incident.family_of(above) is family:
        chain.append(above)
        above = incident.kinship.parent(above)
    return chain


def _top_alive(incident: Incident, life: Life, chain: list[Life]) -> Life:
    """The farthest ancestor that an unbroken line of living parents leads to."""
    top = life
    for above in chain:
        if incident.alive(above) is not True:
            return top
        top = above
    return top


def _is_remainder(incident: Incident, family: Family, top: Life) -> bool:
    """What an engine leaves behind when its server dies, whatever it is called.

    A process that holds no device memory while its children do, adopted together with a childless one that has no
    device open either and was started at the same time. A script that started a server and ended leaves the server's
    head adopted, alone.
    """
    tops = [life for life in family.members if was_adopted(life) and incident.alive(life) is True]
    engines = [life for life in tops if _leads_holders(incident, family, life)]
    helpers = [life for life in tops if _is_bare(incident, family, life)]
    paired = any(_together(engine, helper) for engine in engines for helper in helpers)
    return paired and (top in engines or top in helpers)


def _children(incident: Incident, family: Family, life: Life) -> list[Life]:
    return [other for other in family.members if incident.kinship.parent(other) is life]


def _leads_holders(incident: Incident, family: Family, life: Life) -> bool:
    children = _children(incident, family, life)
    return incident.holds_now(life) == 0 and any(incident.holds_now(child) for child in children)


def _is_bare(incident: Incident, family: Family, life: Life) -> bool:
    return incident.holds_now(life) == 0 and not _children(incident, family, life)


def _together(one: Life, other: Life) -> bool:
    if one.start_ticks is not None and other.start_ticks is not None:
        return abs(one.start_ticks - other.start_ticks) <= _TOGETHER_S * TICKS_PER_SECOND
    if one.start_ns is None or other.start_ns is None:
        return False
    return abs(one.start_ns - other.start_ns) <= _TOGETHER_S * SECOND + one.start_error_ns + other.start_error_ns
