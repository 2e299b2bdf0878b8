"""The comparison: a state for every process and GPU, and one for all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpudiag.collect.present import ALIVE, GONE, LEAVING, RECYCLED, UNKNOWN, GpuNow, Sample
from gpudiag.timeline.facts.baseline import IDLE_MIB
from gpudiag.verdict import NOTICEABLE_MIB
from gpudiag.verification.goals import Goals, GpuGoal, Target

BACK: Final = "back"
HELD: Final = "held"
RELEASING: Final = "releasing"
UNCLEAR: Final = "cannot_be_told"
ENOUGH: Final = 0.9
"""Share of the memory that has to come back; the driver's bookkeeping shifts by less."""
_ORDER = (HELD, UNCLEAR, RELEASING, BACK)
"""What all of it is, is the first of these that any part is."""
_OF_PRESENCE = {ALIVE: HELD, LEAVING: RELEASING, UNKNOWN: UNCLEAR, GONE: BACK, RECYCLED: BACK}


@dataclass(frozen=True)
class TargetState:
    """A process that should be gone, and where it is."""

    target: Target
    presence: str
    """One of the words of ``collect.present``."""


@dataclass(frozen=True)
class GpuState:
    """One GPU, and whether its memory is back."""

    label: str
    state: str
    used_mib: float | None
    goal: GpuGoal | None = None
    came_back_mib: float | None = None
    others: Mapping[int, float] = field(default_factory=dict[int, float])
    """What others took since, by PID."""
    holders: Mapping[int, float] = field(default_factory=dict[int, float])
    """Without a goal: who is in the way, by PID; 0 where it is not known how much."""
    because: str | None = None


@dataclass(frozen=True)
class Result:
    """All of it."""

    state: str
    targets: tuple[TargetState, ...] = ()
    gpus: tuple[GpuState, ...] = ()
    because: str | None = None
    """Why it cannot be told, where one reason holds for all."""


def compare(
    goals: Goals,
    now: Sample,
    earlier: Sample,
    present: Callable[[Target], str],
    started_s: Callable[[int], float | None],
) -> Result:
    """Against a report. ``earlier``: an older sample, to see what falls; ``started_s``: when a PID's process began."""
    targets = tuple(TargetState(target, present(target)) for target in goals.targets)
    leaving = {item.target.pid for item in targets if item.presence == LEAVING}
    recycled = {item.target.pid for item in targets if item.presence == RECYCLED}

    def is_new(pid: int) -> bool:
        began = started_s(pid)
        return pid in recycled or (began is not None and goals.newest_s is not None and began > goals.newest_s)

    gpus = [_compared(goal, now, earlier, leaving, is_new) for goal in goals.gpus]
    gpus += [
        GpuState(name, UNCLEAR, None, because="the bundle does not say how much of it should come back")
        for name in goals.uncounted
    ]
    parts = [*(_OF_PRESENCE[item.presence] for item in targets), *(gpu.state for gpu in gpus)]
    return Result(worst(parts), targets, tuple(gpus), None if parts else "the bundle shows no GPU")


def free(now: Sample, earlier: Sample, wanted: Callable[[GpuNow], bool]) -> Result:
    """Without a report: is each GPU idle? A GPU that does not answer cannot be told."""
    gpus = [_idle(gpu, _same(gpu.uuid, gpu.number, earlier)) for gpu in now.gpus if wanted(gpu)]
    gpus += [GpuState(words.partition(":")[0], UNCLEAR, None, because=words) for words in now.failed]
    return Result(worst(gpu.state for gpu in gpus), (), tuple(gpus), None if gpus else "no such GPU answers")


def worst(states: Iterable[str]) -> str:
    """One state for several; none at all cannot be told."""
    found = set(states)
    return next((state for state in _ORDER if state in found), UNCLEAR)


def _compared(
    goal: GpuGoal, now: Sample, earlier: Sample, leaving: set[int], is_new: Callable[[int], bool]
) -> GpuState:
    gpu = _same(goal.uuid, goal.index, now)
    label = f"GPU {goal.index if goal.index is not None else goal.uuid}"
    if gpu is None or gpu.used_mib is None:
        return GpuState(label, UNCLEAR, None, goal, because="; ".join(now.failed) or "it does not answer")
    grown = {pid: size for pid, size in gpu.booked_mib.items() if pid not in goal.others_mib and is_new(pid)}
    grown |= {pid: gpu.booked_mib.get(pid, 0.0) - size for pid, size in goal.others_mib.items()}
    others = {pid: size for pid, size in grown.items() if size >= NOTICEABLE_MIB}
    came_back = goal.used_mib - (gpu.used_mib - sum(grown.values()))
    back = came_back >= ENOUGH * goal.frees_mib or goal.frees_mib < NOTICEABLE_MIB
    # Whoever is leaving may unpin host memory for seconds before the first MiB of the device comes back.
    with_leaving = came_back + sum(goal.owed_mib.get(pid, 0.0) for pid in leaving)
    going = with_leaving >= ENOUGH * goal.frees_mib or _falls(gpu, _same(goal.uuid, goal.index, earlier))
    state = BACK if back else RELEASING if going else HELD
    return GpuState(label, state, gpu.used_mib, goal, max(0.0, came_back), others)


def _idle(gpu: GpuNow, before: GpuNow | None) -> GpuState:
    label = f"GPU {gpu.number}"
    if gpu.used_mib is None:
        return GpuState(label, UNCLEAR, None, because="the driver does not tell its memory")
    sizes = {pid: gpu.booked_mib.get(pid, 0.0) for pid in gpu.compute_pids}
    holders = {pid: size for pid, size in sizes.items() if not 0 < size < NOTICEABLE_MIB}
    idle = gpu.used_mib <= (IDLE_MIB if gpu.net else 2 * IDLE_MIB) and not holders
    state = BACK if idle else RELEASING if _falls(gpu, before) else HELD
    return GpuState(label, state, gpu.used_mib, holders=holders)


def _falls(gpu: GpuNow, before: GpuNow | None) -> bool:
    if gpu.used_mib is None or before is None or before.used_mib is None:
        return False
    return before.used_mib - gpu.used_mib >= NOTICEABLE_MIB


def _same(uuid: str | None, index: int | None, sample: Sample) -> GpuNow | None:
    if uuid is not None:
        return next((gpu for gpu in sample.gpus if gpu.uuid == uuid), None)
    return next((gpu for gpu in sample.gpus if gpu.number == index), None)
