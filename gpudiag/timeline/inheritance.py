"""Memory booked on a dead process whose device files a forked child still has open.

The driver books memory on the process that opened it. A child that was forked (and did not exec) keeps the
descriptors, is in no list of nvidia-smi, and holds the memory until it ends. Measured:
captures/h200/forked-child-holds. Older drivers, and a list taken too late, do not name the dead one: then the memory in
use and the descent are what is left to go by (``unlisted_heirs``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from gpudiag.timeline.daemons import is_daemon
from gpudiag.timeline.kinship import Kinship, is_shell, is_supervisor
from gpudiag.timeline.lives import NOT_FOUND, Census, Key, Life, Sighting
from gpudiag.timeline.order import Look

UVM = "/dev/nvidia-uvm"
NEAR = 4096
"""Processes that are started within minutes of each other have numbers that lie no further apart (of 32768 or more)."""
_GPU = re.compile(r"/dev/nvidia\d+\Z")


@dataclass(frozen=True)
class Inheritance:
    """A dead process with memory, and the living that may keep it."""

    look: Look
    dead: Life
    heirs: tuple[Life, ...]
    proven: bool
    """An earlier look shows the heirs as children of the dead."""
    booked: bool = True
    """The driver books memory on the dead; if not, the memory is what no list accounts for."""


def inheritances(census: Census, kinship: Kinship, look: Look, *, whole: bool) -> list[Inheritance]:
    """All dead processes that the driver still books memory on, each with its heirs (there may be none).

    ``whole``: the look's list names every living holder of all GPUs, and root asked who has the devices open; only then
    is anybody left over by elimination.
    """
    dead = [life for life in census.lives if _booked(life, look) and _is_gone(life, look, census)]
    if not dead:
        return []
    possible = [life for life in census.lives if _keeps_devices(life, look, census, kinship)]
    found: list[Inheritance] = []
    left = _only_users_left(census, kinship, look, dead) if whole else ()
    for life in dead:
        if census.present(life, look) is not False:
            found.append(Inheritance(look, life, _next_in_number(left, life), False))
            continue
        children = tuple(heir for heir in possible if kinship.parent(heir) is life)
        if children:
            found.append(Inheritance(look, life, children, True))
        else:
            orphans = [heir for heir in possible if _may_descend(heir, life, census, kinship, look)]
            heirs = _one_group(orphans, life) or _next_in_number(left, life)
            found.append(Inheritance(look, life, heirs, False))
    return found


def _is_gone(life: Life, look: Look, census: Census) -> bool:
    """It is dead; or nvidia-smi did not find it, and no look says that it was run in a namespace of its own."""
    present = census.present(life, look)
    missing = life.sightings[look.id].name_missing == NOT_FOUND and not census.is_apart(look)
    return present is False or (present is None and missing)


def unlisted_heirs(census: Census, kinship: Kinship, look: Look) -> list[Inheritance]:
    """Those who have a GPU open, are in no list, and were forked from one who is dead and in no list either.

    Only for a look with a list in which a living holder would be named.
    """
    found: dict[Key, list[Life]] = defaultdict(list)
    proven: set[Key] = set()
    dead: dict[Key, Life] = {}
    asked = any(UVM in (seen.open or ()) for life in census.lives if (seen := life.sightings.get(look.id)))
    for heir in census.lives:
        if not _keeps_a_gpu(heir, look, census, kinship, uvm_asked=asked):
            continue
        parent = kinship.parent(heir)
        above = parent or _dead_leader(heir, look, census)
        if above is None or not _forked_from(heir, above) or _booked(above, look):
            continue
        if parent is None or census.present(parent, look) is False or _has_lost(heir, parent, look):
            dead[above.key] = above
            found[above.key].append(heir)
            if parent is not None and not kinship.is_guessed(heir):
                proven.add(above.key)
    return [Inheritance(look, dead[key], tuple(heirs), key in proven, booked=False) for key, heirs in found.items()]


def _keeps_a_gpu(life: Life, look: Look, census: Census, kinship: Kinship, *, uvm_asked: bool) -> bool:
    """Alive, unlisted, and has a GPU open; the memory manager as well, where the look would show that."""
    seen = life.sightings.get(look.id)
    if seen is None or seen.bookings or kinship.is_observer(life) or life.pid == 1:
        return False
    opened = seen.open or frozenset()
    if not any(map(_GPU.match, opened)) or (uvm_asked and UVM not in opened):
        return False
    return census.alive(life, look) is True and not is_shell(life) and not is_supervisor(life)


def _forked_from(heir: Life, parent: Life) -> bool:
    """It runs the same program: the same command line, or the same comm where only one of the lines is known.

    A child that executed another program has closed the driver's files, and opened what it has by itself.
    """
    if is_shell(parent) or is_supervisor(parent) or len({heir.string("user"), parent.string("user")} - {None}) > 1:
        return False
    lines = heir.cmdline, parent.cmdline
    if None not in lines:
        return lines[0] == lines[1]
    return heir.comm is not None and heir.comm == parent.comm and any(s.mapped for s in heir.sightings.values())


def _has_lost(heir: Life, parent: Life, look: Look) -> bool:
    """The look shows it with another parent: its own has died."""
    seen = heir.sightings[look.id].first("ppid")
    return isinstance(seen, int) and seen != parent.pid


def _dead_leader(heir: Life, look: Look, census: Census) -> Life | None:
    """The dead process whose group it is in, where PID 1 has taken it over."""
    group = heir.integer("pgid")
    if group in (None, heir.pid) or heir.sightings[look.id].first("ppid") != 1:
        return None
    named = [life for life in census.named(heir.host, group or 0) if any(s.bookings for s in life.sightings.values())]
    gone = [life for life in named if census.present(life, look) is False]
    return gone[-1] if len(gone) == len(named) and gone else None


def _booked(life: Life, look: Look) -> bool:
    seen = life.sightings.get(look.id)
    return seen is not None and bool(seen.bookings)


def _keeps_devices(life: Life, look: Look, census: Census, kinship: Kinship) -> bool:
    """Alive, has devices mapped (a CUDA user's child, not an NVML client), and no list explains why."""
    seen = life.sightings.get(look.id)
    if seen is None or seen.bookings or kinship.is_observer(life) or life.pid == 1:
        return False
    if not _uses_cuda(seen) or census.alive(life, look) is not True:
        return False
    above = kinship.parent(life)
    while above is not None:
        if _booked(above, look) and census.alive(above, look) is True:
            return False
        above = kinship.parent(above)
    return True


def _uses_cuda(seen: Sighting) -> bool:
    """It maps a device and has the memory manager's open; a graphics or monitoring client has no ``nvidia-uvm``."""
    return bool(seen.mapped) and UVM in (seen.open or frozenset())


def _may_descend(heir: Life, dead: Life, census: Census, kinship: Kinship, look: Look) -> bool:
    """No look shows the descent: the heir must have lost its parent, lead no group, be younger and of one user."""
    group = heir.integer("pgid")
    if group is None or group == heir.pid:
        return False  # a fork stays in its parent's group; the leader of its own is a job of its own
    parent = kinship.parent(heir)
    if parent is not None and parent.pid != 1 and census.alive(parent, look) is not False:
        return False
    known = dead.integer("pgid")
    if known is not None and known != group:
        return False
    if heir.start_ns is not None and dead.start_ns is not None and heir.start_ns < dead.start_ns - dead.start_error_ns:
        return False
    owners = {heir.string("user"), dead.string("user")} - {None}
    return len(owners) <= 1


def _only_users_left(census: Census, kinship: Kinship, look: Look, dead: list[Life]) -> tuple[Life, ...]:
    """All who use CUDA and are in no list, where the list names nobody who may be alive.

    One with a context of its own would be in the list: what these have open they were forked with, by somebody dead
    who is in it. One user and one program only, so that nobody else's job is among them; a parent that is known to be
    another than PID 1 speaks against it. A daemon of the machine's that has the devices open shows that it is the host,
    as does whatever else says that the driver's numbers are the reader's own (``own_numbers``).
    """
    here = [(life, life.sightings[look.id]) for life in census.lives if look.id in life.sightings]
    # In a container the driver's PID is absent and alive, and the holder healthy under another number.
    of_host = any(seen.open and is_daemon(life) and life.string("user") == "root" for life, seen in here)
    if not of_host and (census.is_apart(look) or not all(census.has_drivers_number(life) for life in dead)):
        return ()
    if any(seen.bookings and not _is_gone(life, look, census) for life, seen in here):
        return ()
    mapping = [(life, seen) for life, seen in here if seen.mapped and not seen.bookings and not is_daemon(life)]
    alike = {(life.string("user"), life.comm) for life, _ in mapping}
    if len(alike) != 1 or None in next(iter(alike)):
        return ()
    asked = any(UVM in (seen.open or ()) for _, seen in here)
    fit = all(_is_fork(life, seen, kinship, uvm_asked=asked) for life, seen in mapping)
    return tuple(life for life, _ in mapping if census.alive(life, look) is True) if fit else ()


def _is_fork(life: Life, seen: Sighting, kinship: Kinship, *, uvm_asked: bool) -> bool:
    """It can be what a dead process forked; where nobody asked for CUDA's own device, it must have lost its parent."""
    if life.pid == 1 or kinship.is_observer(life) or is_shell(life) or is_supervisor(life):
        return False
    parent, group = seen.first("ppid"), life.integer("pgid")
    if parent not in (None, 1) or group == life.pid:
        return False
    return _uses_cuda(seen) if uvm_asked else parent == 1


def _next_in_number(heirs: tuple[Life, ...], dead: Life) -> tuple[Life, ...]:
    """All of them, if their numbers follow the dead one's: a sign that both are of one PID namespace."""
    first = min((heir.pid for heir in heirs), default=0)
    owners = {life.string("user") for life in (*heirs, dead)} - {None}
    return heirs if dead.pid < first <= dead.pid + NEAR and len(owners) == 1 else ()


def _one_group(heirs: list[Life], dead: Life) -> tuple[Life, ...]:
    """Candidates of several groups: only those whose group the dead process led; else it cannot be told."""
    if len({heir.integer("pgid") for heir in heirs}) <= 1:
        return tuple(heirs)
    return tuple(heir for heir in heirs if heir.integer("pgid") == dead.pid)
