"""Who leaves by itself after a command: what is known of each engine, applied to the processes that it reaches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpudiag.rules.engines import Coupling, Engine
from gpudiag.shell.signals import NUMBERS
from gpudiag.simulation.choose import Pick
from gpudiag.simulation.scene import Stage
from gpudiag.timeline.lives import Life

_STRUCTURAL = ("server", "launcher")
"""Roles that the place in the tree gives as well; any other is believed only from the engine's own title."""


@dataclass(frozen=True)
class Following:
    """A process that leaves as a consequence."""

    pid: int
    because: str
    certainty: str
    """``inferred`` or ``possible``."""


def followers(stage: Stage, pick: Pick) -> tuple[Following, ...]:
    """Members that are not reached themselves and leave all the same, in order of PID."""
    engine = stage.engine(pick.family.engine)
    if engine is None:
        return ()
    version = _version(stage, engine, pick.family.host)
    found: dict[int, Following] = {}
    ended = {pid: pick.effect.ends(pid) for pid in pick.members if pick.effect.reached(pid) is True}
    # A consequence of a consequence is possible at most: its sentence was made for a server that is otherwise whole.
    waiting = [(pid, "inferred" if ends else "possible") for pid, ends in ended.items() if ends is not False]
    while waiting:
        pid, certainty = waiting.pop(0)
        for item in _caused_by(pick, engine, version, pid, certainty):
            known = found.get(item.pid)
            better = known is None or (known.certainty == "possible" and item.certainty == "inferred")
            if pick.effect.reached(item.pid) is not True and better:
                found[item.pid] = item
                waiting.append((item.pid, "possible"))
    return tuple(found[pid] for pid in sorted(found))


def _caused_by(
    pick: Pick, engine: Engine, version: tuple[int, ...] | None, pid: int, certainty: str
) -> Iterator[Following]:
    for coupling in engine.couplings:
        holds = coupling.holds_for(version)
        if holds is False or not _starts(pick, engine, coupling, pid):
            continue
        # A coupling that names its signals is about what the handler does, whether or not the process then ends.
        started = certainty == "inferred" or bool(coupling.by)
        sure = holds is True and started and coupling.certainty == "inferred"
        shown = "" if holds else "; the engine's version is not known"
        for other, life in pick.members.items():
            if other != pid and ("rest" in coupling.leave or _role(pick, engine, life) in coupling.leave):
                yield Following(other, f"{coupling.because}{shown}", "inferred" if sure else "possible")


def _starts(pick: Pick, engine: Engine, coupling: Coupling, pid: int) -> bool:
    """The coupling speaks of this process and of the way in which it ends."""
    life = pick.members[pid]
    if coupling.by:
        # What leaves as a consequence gets no signal: only what the command itself sends counts.
        if not pick.effect.signals(pid) & {NUMBERS[name] for name in coupling.by}:
            return False
        if NUMBERS["KILL"] in pick.effect.signals(pid) and "KILL" not in coupling.by:
            return False
    if coupling.ended == "child":
        return life is not pick.family.root and _role(pick, engine, life) not in _STRUCTURAL
    return _role(pick, engine, life) == coupling.ended


def _role(pick: Pick, engine: Engine, life: Life) -> str | None:
    own = engine.role_of(life.comm, life.cmdline)
    if own is not None:
        return own
    role = pick.family.role(life)
    return role if role in (*_STRUCTURAL, "tracker") else None


def _version(stage: Stage, engine: Engine, host: str) -> tuple[int, ...] | None:
    """As the server's log tells it; two logs that disagree tell nothing."""
    lines = (event.text for event in stage.incident.parsed.log_events if event.host == host or not event.host)
    versions = {found for line in lines if (found := engine.version_of(line)) is not None}
    return versions.pop() if len(versions) == 1 else None
