"""Which of a host's processes a command can have met that was given inside a container.

The host's tables show the processes of all containers, and seldom say of which one each is. So such a command is about
those that are shown to be in the container; where nothing shows that, about the only server that uses the GPUs, if no
other container is known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpudiag.collect.groups import named
from gpudiag.model import Container
from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.families import Family
from gpudiag.timeline.lives import Life
from gpudiag.timeline.requests import Services, is_container_id, same_id, uses_gpu

_ENDED = ("exited", "created", "dead", "removing")
_LAUNCHERS = frozenset({"srun"})
"""Stand for a container in a step's words; what they start shares the host's PIDs."""


def met_by(action: ActionView, families: Sequence[Family], services: Services) -> Sequence[Family]:
    """Families whose processes the command may have met, whatever it looked for among them."""
    names = containers_of(action)
    if not names:
        return families
    own = [family for family in families if family.host == action.host]
    return [f for f in own if all(_may_be_in(life, names, own, services) for life in f.members)]


def missed_by_all(life: Life, actions: Sequence[ActionView], families: Sequence[Family], services: Services) -> bool:
    """Every command on its host was given inside a container, and nothing shows that it is in one of those."""
    names = [containers_of(action) for action in actions if action.host == life.host]
    if not names or not all(names):
        return False
    own = [family for family in families if family.host == life.host]
    return not _may_be_in(life, frozenset[str]().union(*names), own, services)


def containers_of(action: ActionView) -> frozenset[str]:
    """The containers that its killing steps ran in; empty if one of them ran on the host itself."""
    steps = [step.replay.step for step in action.steps if step.replay.tool is not None or step.replay.stop is not None]
    inside = {step.container for step in steps}
    return frozenset() if None in inside or inside & _LAUNCHERS else frozenset(name for name in inside if name)


def _may_be_in(life: Life, names: Collection[str], own: Sequence[Family], services: Services) -> bool:
    """It is shown to be in one of these containers; or nothing shows where it is, and nobody else comes into question.

    ``own``: the families of its host.
    """
    rows = [row for row in services.containers if row.at.host == life.host]
    named_rows = [row for row in rows if any(row.name == name or same_id(row.id, name) for name in names)]
    listed = [row for row in rows if life.pid in row.pids or life.pid == row.main_pid]
    if listed:
        return any(row in named_rows for row in listed)
    ids = [name for name in names if is_container_id(name)] + [row.id for row in named_rows if row.id is not None]
    groups = _groups(life)
    if groups is not None and (ids or not groups):
        return any(same_id(full, one) for full in groups for one in ids)
    return _is_one_server(own) and all(row in named_rows or _has_ended(row) for row in rows)


def _is_one_server(own: Sequence[Family]) -> bool:
    """All that use the GPUs are of one family; where there are several, a table must have shown their parents."""
    users = [family for family in own if uses_gpu(family)]
    lives = [life for family in users for life in family.members if any(s.bookings for s in life.sightings.values())]
    shown = all(any(seen.in_table for seen in life.sightings.values()) for life in lives)
    return len(users) <= 1 and (len(lives) <= 1 or shown)


def _groups(life: Life) -> tuple[str, ...] | None:
    """Ids of the containers that its control group names; ``None`` where that was not read."""
    path = life.string("cgroup")
    return None if path is None else named([f"0::{path}"]).containers


def _has_ended(row: Container) -> bool:
    return (row.status or "").lower().startswith(_ENDED)
