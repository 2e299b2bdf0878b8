"""Children whose descent no look shows: PID 1 took them over, and they began while a killed server was starting.

A transcript often has a list from before the kill of the server only, and one from after it of what is left. The start
times tie the two: an engine starts its workers within the first minutes of its life.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.kinship import Kinship, is_shell, is_supervisor
from gpudiag.timeline.lives import LOCAL_ERROR_S, Census, Key, Life
from gpudiag.timeline.order import SECOND

START_SPAN_S = 180
"""An engine has started its workers within this time; a model that loads for longer has its workers already."""


def adopt_strays(
    census: Census, kinship: Kinship, actions: Sequence[ActionView], hit: Sequence[Life]
) -> dict[Key, Life]:
    """Tie each stray to the one killed server that can have started it; two that can are none."""
    adopted: dict[Key, Life] = {}
    callers = {action.host: action.caller for action in actions}
    for life in census.lives:
        if not _is_stray(life, kinship):
            continue
        fitting = [server for server in hit if server is not life and _may_have_started(server, life, census)]
        if len(fitting) != 1:
            continue
        owners = {fitting[0].string("user"), life.string("user")} - {None}
        # Where no owner is known, a caller without root's rights can at least not hurt somebody else.
        if len(owners) == 1 or (not owners and callers[life.host].is_root is False):
            kinship.adopt(life, fitting[0])
            adopted[life.key] = fitting[0]
    return adopted


def _is_stray(life: Life, kinship: Kinship) -> bool:
    """PID 1 is its only known parent, no look shows its group, and it holds device memory."""
    parents = {row.ppid for seen in life.sightings.values() for row in seen.rows if row.ppid is not None}
    if parents != {1} or life.integer("pgid") is not None or kinship.is_observer(life):
        return False
    return any(seen.bookings for seen in life.sightings.values()) and not is_shell(life) and not is_supervisor(life)


def _may_have_started(server: Life, life: Life, census: Census) -> bool:
    """It is dead, is no shell, and began shortly before the stray."""
    look = census.newest_look(life.host)
    if server.host != life.host or look is None or census.alive(server, look) is not False:
        return False
    if is_shell(server) or is_supervisor(server):
        return False
    gap = _seconds_between(server, life)
    return gap is not None and -LOCAL_ERROR_S <= gap <= START_SPAN_S


def _seconds_between(server: Life, life: Life) -> float | None:
    if server.local_start_s is not None and life.local_start_s is not None:
        return life.local_start_s - server.local_start_s
    if server.start_ns is not None and life.start_ns is not None:
        return (life.start_ns - server.start_ns) / SECOND
    return None
