"""Stop commands that name no process (``docker rm``, ``systemctl stop``): whom they were meant for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpudiag.collect.groups import named
from gpudiag.model import Container, Coverage, Unit
from gpudiag.shell.signals import KILL
from gpudiag.shell.tools.stops import Stop
from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.families import Family
from gpudiag.timeline.lives import Key, Life

_WORDS = re.compile(r"[^a-z0-9]+")
_SHORT_ID = 12
_ID = re.compile(r"[0-9a-f]{12,64}\Z")


@dataclass(frozen=True)
class Services:
    """What the evidence lists of containers and units."""

    containers: Sequence[Container]
    units: Sequence[Unit]
    coverage: Sequence[Coverage]
    positions: Mapping[str, int]
    """Of looks, by id."""


NO_SERVICES = Services((), (), (), {})


def meant_by_requests(action: ActionView, families: Sequence[Family], services: Services) -> frozenset[Key]:
    """Members of what was to be stopped: by the keeper's own list, or by their control group.

    Where nothing lists them: the workers of the one engine whose name stands in the name of a removed container, if a
    list taken afterwards shows that no container runs any more, and nobody else uses a GPU of the host.
    """
    stops = [s.replay.stop for s in action.steps if s.replay.stop is not None and s.replay.ran is not False]
    own = [family for family in families if family.host == action.host]
    lives = [life for family in own for life in family.members]
    shown = frozenset(key for stop in stops for key in _shown(stop, action, lives, services))
    if shown:
        return shown
    removed = [stop for stop in stops if stop.kind == "container" and stop.names_known]
    if not removed or not _none_runs(action, services):
        return frozenset()
    engines = {word for stop in removed for name in stop.names for word in _WORDS.split(name.lower())}
    users = [family for family in own if uses_gpu(family)]
    if not all(family.engine in engines and family.root is None for family in users):
        return frozenset()
    return frozenset(life.key for family in users for life in family.members)


def killed_members(action: ActionView, families: Sequence[Family], services: Services) -> frozenset[Key]:
    """Processes that are shown to be of a container which the command killed: SIGKILL has been sent to them."""
    steps = (step.replay for step in action.steps if step.replay.ran is not False)
    stops = [one.stop for one in steps if one.stop is not None and one.stop.kind == "container"]
    lives = [life for family in families if family.host == action.host for life in family.members]
    return frozenset(key for stop in stops if stop.signal == KILL for key in _shown(stop, action, lives, services))


def _shown(stop: Stop, action: ActionView, lives: Sequence[Life], services: Services) -> Iterator[Key]:
    pids = set(_members(stop, action.host, services))
    for life in lives:
        if life.pid in pids or _is_in(life, stop, action.host, services):
            yield life.key


def _members(stop: Stop, host: str, services: Services) -> Iterator[int]:
    """PIDs that the keeper itself names."""
    if stop.kind == "container":
        for row in _rows(stop, host, services):
            yield from (*row.pids, *([row.main_pid] if row.main_pid else []))
    elif stop.kind == "unit":
        names = {_unit_name(name) for name in stop.names}
        for unit in services.units:
            if unit.at.host == host and unit.name is not None and _unit_name(unit.name) in names:
                yield from (*unit.pids, *([unit.main_pid] if unit.main_pid else []))


def _rows(stop: Stop, host: str, services: Services) -> list[Container]:
    own = (row for row in services.containers if row.at.host == host)
    return [row for row in own if row.name in stop.names or any(same_id(row.id, name) for name in stop.names)]


def _is_in(life: Life, stop: Stop, host: str, services: Services) -> bool:
    """Its control group is of the unit, or of the container that the name or id in the command means."""
    path = life.string("cgroup")
    groups = named([f"0::{path}"]) if path else None
    if groups is None:
        return False
    if stop.kind == "unit":
        return bool({_unit_name(name) for name in groups.units} & {_unit_name(name) for name in stop.names})
    ids = [*stop.names, *(row.id for row in _rows(stop, host, services) if row.id is not None)]
    return stop.kind == "container" and any(same_id(full, one) for full in groups.containers for one in ids)


def same_id(full: str | None, given: str) -> bool:
    """``given`` is the container's id, or its first digits."""
    return full is not None and len(given) >= _SHORT_ID and (full.startswith(given) or given.startswith(full))


def is_container_id(word: str) -> bool:
    """Twelve hexadecimal digits or more."""
    return bool(_ID.match(word))


def _unit_name(name: str) -> str:
    return name.removesuffix(".service")


def _none_runs(action: ActionView, services: Services) -> bool:
    """A list of all running containers was taken after the command, and it is empty."""
    later = {look for look, position in services.positions.items() if position > action.slot}
    looked = any(
        c.source == "containers"
        and c.outcome == "ok"
        and c.complete
        and c.at.host == action.host
        and c.at.look in later
        for c in services.coverage
    )
    return looked and not any(row.at.host == action.host and row.at.look in later for row in services.containers)


def uses_gpu(family: Family) -> bool:
    """Some look shows device memory on it, or devices that it maps."""
    return any(life.used_devices for life in family.members)
