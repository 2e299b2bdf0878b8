"""Who leaves by itself after a command: the engines' laws, applied to the processes that it reaches."""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.shell.signals import NUMBERS
from gpudiag.simulation.choose import Pick
from gpudiag.simulation.scene import Stage
from gpudiag.timeline.coupling import Ending
from gpudiag.timeline.leaving import fates_on, member_of

_NAMES = {NUMBERS[name]: name for name in ("KILL", "TERM", "INT")}


@dataclass(frozen=True)
class Following:
    """A process that leaves as a consequence."""

    pid: int
    because: str
    certainty: str
    """``inferred`` or ``possible``."""


def followers(stage: Stage, pick: Pick) -> tuple[Following, ...]:
    """Members that are not reached themselves and leave all the same, in order of PID."""
    host = pick.family.host
    endings = {
        life.key: Ending(_signals(pick, pid), pick.effect.ends(pid))
        for pid, life in pick.members.items()
        if pick.effect.reached(pid) is True
    }
    members = [member_of(stage.incident, life, pick.scene.look) for life in pick.members.values()]
    found = fates_on(stage.incident, host, members, endings)
    return tuple(
        Following(pid, found[life.key].because, found[life.key].certainty)
        for pid, life in sorted(pick.members.items())
        if life.key in found and found[life.key].leaves and pick.effect.reached(pid) is not True
    )


def _signals(pick: Pick, pid: int) -> frozenset[str]:
    return frozenset(_NAMES[number] for number in pick.effect.signals(pid) if number in _NAMES)
