"""Ranks of one job of which a command ended one: the others may wait for it, in a call that no signal has reached."""

from __future__ import annotations

from gpudiag.timeline.families import Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.kinship import is_shell, is_supervisor
from gpudiag.timeline.leaving import Expected, expectations
from gpudiag.timeline.lives import Key, Life

_RANKS = frozenset({"worker", None})
"""Roles of those that do the work; a rank of an unknown launcher has none."""


class Peers:
    """The ranks of an incident's jobs, and who of them leaves by itself; computed once."""

    def __init__(self, incident: Incident) -> None:
        self._incident = incident
        self._expected: dict[Key, Expected] | None = None
        picked = [life for life in incident.census.lives if incident.was_picked(life)]
        self._picked = frozenset(life.key for life in picked)
        self._ended = picked

    def columns(self, family: Family, life: Life) -> dict[str, object]:
        """Columns of one process; about a rank that was hit itself there is nothing to tell."""
        ended = [] if life.key in self._picked or family.role(life) not in _RANKS else self._ended_beside(family, life)
        gone = [rank for rank in ended if self._incident.alive(rank) is False]
        doubt = any(self._incident.alive(rank) is None for rank in ended)
        return {
            "peer_gone": True if gone else (None if doubt else False),
            "peer_pid": (gone or ended)[0].pid if ended else None,
            "ranks_coupled": self._coupled(family, life) if ended else None,
            "leaves_by_itself": self._leaves(life) if ended else None,
        }

    def _ended_beside(self, family: Family, life: Life) -> list[Life]:
        return [other for other in self._ended if self._is_beside(family, life, other)] if _ever_booked(life) else []

    def _is_beside(self, family: Family, life: Life, other: Life) -> bool:
        """A program that is no shell started both, and both held memory; or both are workers of one server."""
        if other.host != life.host or other.string("user") != life.string("user"):
            return False
        parent = self._incident.kinship.parent(life)
        if parent is not None and self._incident.kinship.parent(other) is parent and _ever_booked(other):
            return not is_shell(parent) and not is_supervisor(parent) and family.role(other) in _RANKS
        return self._incident.family_of(other) is family and family.role(life) == family.role(other) == "worker"

    def _coupled(self, family: Family, life: Life) -> bool:
        """By the launcher's own words it starts one job; or the engine stops all of its workers when one is dead."""
        book, parent = self._incident.book, self._incident.kinship.parent(life)
        if parent is not None and book.is_one_job(parent.comm, parent.cmdline):
            return True
        laws = book.laws_of(family.engine) if family.engine is not None else ()
        return any(law.ended in ("worker", "child") and {"rest", "worker"} & set(law.leave) for law in laws)

    def _leaves(self, life: Life) -> bool | None:
        """Whether it is on its way out; where no time of the command is known, its time may be over or not."""
        if self._expected is None:
            self._expected = expectations(self._incident)
        found = self._expected.get(life.key)
        if found is None or not found.fate.leaves or found.fate.certainty != "inferred":
            return False
        return None if found.left_s is None else found.will_go


def _ever_booked(life: Life) -> bool:
    return any(seen.bookings for seen in life.sightings.values())
