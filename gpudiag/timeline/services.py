"""Services that systemd starts again: a unit's new main process, and the one that a command killed before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpudiag.model import Unit
from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life
from gpudiag.timeline.order import SECOND
from gpudiag.timeline.presence import newer_than_actions

RESTARTS = frozenset({"always", "on-success", "on-failure", "on-abnormal", "on-abort", "on-watchdog"})
"""``Restart=`` of a unit that comes back; each of them does after SIGKILL or a clean exit, or both."""
_WITHIN_S = 120
"""A unit waits ``RestartSec`` (0.1 s, seldom more than a minute) before it is started again."""


@dataclass(frozen=True)
class Service:
    """A unit that brought a process back."""

    unit: str
    killed_pid: int
    """What a command ended before."""
    shown: bool
    """An earlier look names that PID as the unit's; else only the time ties the two."""


def service_of(incident: Incident, life: Life) -> Service | None:
    """The unit to which this process belongs, if it came back after a command ended its main process."""
    if newer_than_actions(incident, life) is not True or incident.alive(life) is not True:
        return None
    for main in (life, *_ancestors(incident, life)):
        for unit in incident.parsed.units:
            if unit.main_pid != main.pid or unit.at.host != life.host or unit.restart not in RESTARTS or not unit.name:
                continue
            killed = _killed_before(incident, unit, main)
            if killed is not None:
                return Service(unit.name, *killed)
    return None


def _ancestors(incident: Incident, life: Life) -> Iterator[Life]:
    above = incident.kinship.parent(life)
    while above is not None and above.pid != 1:
        yield above
        above = incident.kinship.parent(above)


def _killed_before(incident: Incident, unit: Unit, main: Life) -> tuple[int, bool] | None:
    """The PID, and whether an earlier look shows it as the main process of the unit."""
    earlier = {other.main_pid for other in incident.parsed.units if other.name == unit.name and other.at != unit.at}
    for action in reversed([action for action in incident.actions if action.host == main.host]):
        gone = [pid for pid in _named(action) if pid != main.pid and not _lives(incident, main.host, pid)]
        shown = [pid for pid in gone if pid in earlier]
        if shown:
            return shown[0], True
        if gone and _soon_after(action, main):
            return gone[0], False
    return None


def _named(action: ActionView) -> Iterator[int]:
    """PIDs that stand in the command, or that it picks."""
    for step in action.steps:
        selection = step.replay.selection
        if selection is None or step.replay.ran is False or not step.may_end:
            continue
        yield from selection.literal_pids
        yield from (verdict.pid for verdict in selection.verdicts if verdict.selected is True)


def _lives(incident: Incident, host: str, pid: int) -> bool:
    return any(incident.alive(life) is True for life in incident.census.named(host, pid))


def _soon_after(action: ActionView, main: Life) -> bool:
    if main.local_start_s is not None and action.action.local_s is not None:
        return 0 <= main.local_start_s - action.action.local_s <= _WITHIN_S
    if main.start_ns is not None and action.action.time_ns is not None:
        return 0 <= main.start_ns - action.action.time_ns <= _WITHIN_S * SECOND
    return False
