"""Memory booked on a dead process whose device files a forked child still has open.

The driver books memory on the process that opened it. A child that was forked (and did not exec) keeps the
descriptors, is in no list of nvidia-smi, and holds the memory until it ends. Measured:
captures/h200/forked-child-holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpudiag.timeline.kinship import Kinship
from gpudiag.timeline.lives import Census, Key, Life, Sighting
from gpudiag.timeline.order import Look


@dataclass(frozen=True)
class Inheritance:
    """A dead process with memory, and the living that may keep it."""

    look: Look
    dead: Life
    heirs: tuple[Life, ...]
    proven: bool
    """An earlier look shows the heirs as children of the dead."""


def inheritances(census: Census, kinship: Kinship, look: Look) -> list[Inheritance]:
    """All dead processes that the driver still books memory on, each with its heirs (there may be none).

    Some drivers forget the dead at once and list nobody: then those count that an earlier look shows as the parents of
    somebody who has the devices open.
    """
    here = [life for life in census.lives if life.host == look.host]
    booked = [life for life in here if _booked(life, look)]
    dead = [life for life in booked if census.present(life, look) is False]
    possible = [life for life in here if _keeps_devices(life, look, census, kinship)]
    if not booked:
        return _of_the_forgotten(possible, census, kinship, look)
    # A process with a context is in the list as long as it lives: where it has none of those, nobody else forked them.
    only_the_dead = len(dead) == len(booked)
    found: list[Inheritance] = []
    for life in dead:
        children = tuple(heir for heir in possible if kinship.parent(heir) is life)
        if children:
            found.append(Inheritance(look, life, children, True))
            continue
        orphans = [
            heir for heir in possible if _may_descend(heir, life, census, kinship, look, only_the_dead=only_the_dead)
        ]
        found.append(Inheritance(look, life, _one_group(orphans, life), False))
    return found


def _of_the_forgotten(possible: list[Life], census: Census, kinship: Kinship, look: Look) -> list[Inheritance]:
    children: dict[Key, list[Life]] = {}
    parents: dict[Key, Life] = {}
    for life in possible:
        parent = kinship.parent(life)
        # A fork that did not exec has its parent's command line.
        if parent is None or parent.cmdline != life.cmdline or census.present(parent, look) is not False:
            continue
        if kinship.is_guessed(life):
            continue
        children.setdefault(parent.key, []).append(life)
        parents[parent.key] = parent
    return [Inheritance(look, parents[key], tuple(heirs), True) for key, heirs in children.items()]


def _booked(life: Life, look: Look) -> bool:
    seen = life.sightings.get(look.id)
    return seen is not None and bool(seen.bookings)


def _keeps_devices(life: Life, look: Look, census: Census, kinship: Kinship) -> bool:
    """Alive, has devices mapped (a CUDA user's child, not an NVML client), and no list explains why."""
    seen = life.sightings.get(look.id)
    if seen is None or seen.bookings or kinship.is_observer(life) or life.pid == 1:
        return False
    above = kinship.parent(life)
    forked = above is not None and census.present(above, look) is False and above.cmdline == life.cmdline
    if not (_uses_cuda(seen) or (forked and _has_a_gpu_open(seen))) or census.alive(life, look) is not True:
        return False
    while above is not None:
        if _booked(above, look) and census.alive(above, look) is True:
            return False
        above = kinship.parent(above)
    return True


def _uses_cuda(seen: Sighting) -> bool:
    """It maps a device and has the memory manager's open; a graphics or monitoring client has no ``nvidia-uvm``."""
    return bool(seen.mapped) and "/dev/nvidia-uvm" in (seen.open or frozenset())


def _has_a_gpu_open(seen: Sighting) -> bool:
    """Of a child of the dead that is enough: one who only asked for ``/dev/nvidia0`` learns nothing of the others."""
    return any(re.fullmatch(r"/dev/nvidia[0-9]{1,3}", device) for device in seen.open or ())


def _may_descend(heir: Life, dead: Life, census: Census, kinship: Kinship, look: Look, *, only_the_dead: bool) -> bool:
    """No look shows the descent: the heir must have lost its parent, lead no group, be younger and of one user.

    Where nothing is known of groups, nobody else may be there that could have forked it.
    """
    group = heir.integer("pgid")
    if (group is None and not only_the_dead) or group == heir.pid:
        return False  # a fork stays in its parent's group; the leader of its own is a job of its own
    parent = kinship.parent(heir)
    if parent is not None and parent.pid != 1 and census.alive(parent, look) is not False:
        return False
    known = dead.integer("pgid")
    if known is not None and group is not None and known != group:
        return False
    if heir.start_ns is not None and dead.start_ns is not None and heir.start_ns < dead.start_ns - dead.start_error_ns:
        return False
    owners = {heir.string("user"), dead.string("user")} - {None}
    return len(owners) <= 1


def _one_group(heirs: list[Life], dead: Life) -> tuple[Life, ...]:
    """Candidates of several groups: only those whose group the dead process led; else it cannot be told."""
    if len({heir.integer("pgid") for heir in heirs}) <= 1:
        return tuple(heirs)
    return tuple(heir for heir in heirs if heir.integer("pgid") == dead.pid)
