"""What a command would give back: the memory of the server, GPU by GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gpudiag.simulation.choose import Pick
from gpudiag.simulation.scene import Stage, holds
from gpudiag.timeline.lives import Life

Sizes = dict[str, float | None]


@dataclass(frozen=True)
class Memory:
    """MiB by GPU; ``None`` is a size that was not recorded."""

    releases: Sizes
    leaves: Sizes
    undecided: Sizes
    """It cannot be told whether this comes back."""


def memory_of(stage: Stage, pick: Pick, ending: Collection[int], undecided: Collection[int]) -> Memory:
    """Splits what the members hold. ``ending``: PIDs that surely end; ``undecided``: those that may."""
    groups: dict[str, list[Life]] = {"ending": [], "undecided": [], "staying": []}
    for pid, life in pick.members.items():
        if pid in ending:
            kept = any(heir.pid not in ending for heir in _heirs(stage, pick, life))
            groups["staying" if kept else "ending"].append(life)
        else:
            groups["undecided" if pid in undecided else "staying"].append(life)
    gpus = sorted(pick.held)
    return Memory(*(_by_gpu(pick, groups[name], gpus) for name in ("ending", "staying", "undecided")))


def _by_gpu(pick: Pick, lives: Iterable[Life], gpus: Collection[str]) -> Sizes:
    return dict.fromkeys(gpus, 0.0) | holds(pick.scene, lives)


def _heirs(stage: Stage, pick: Pick, life: Life) -> list[Life]:
    """Children that a later look shows to keep its memory, or that have its devices mapped and book nothing."""
    proven = [heir for item in stage.incident.inherited if item.dead is life for heir in item.heirs]
    forked = [
        other
        for other in pick.members.values()
        if stage.incident.kinship.parent(other) is life and _maps_without_booking(pick, other)
    ]
    return proven + forked


def _maps_without_booking(pick: Pick, life: Life) -> bool:
    seen = life.sightings.get(pick.scene.look.id)
    return seen is not None and bool(seen.mapped) and not seen.bookings
