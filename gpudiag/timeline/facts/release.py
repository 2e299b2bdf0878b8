"""Memory that came back: per family and GPU, how much and how fast."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gpudiag.model import Booking
from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.facts.baseline import above_baseline
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.facts.unowned import unowned_releases
from gpudiag.timeline.families import Family
from gpudiag.timeline.gpus import Gpu
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life
from gpudiag.timeline.order import SECOND
from gpudiag.timeline.presence import newer_than_actions
from gpudiag.timeline.samples import IDLE_MIB, seconds
from gpudiag.timeline.takeover import takeovers

NOTICEABLE_MIB = 64.0
"""Smaller changes are a context or two of the driver, not a release."""


def release_rows(incident: Incident) -> Iterator[Row]:
    """One row for every family × GPU with memory before; and one for processes that only the series names."""
    for gpu in incident.gpus.gpus:
        ledger = incident.ledgers.get(gpu.id)
        used = ledger.figure.used_mib if ledger is not None else None
        told = False
        for family in incident.families:
            if family.host == gpu.host:
                older = [life for life in family.members if newer_than_actions(incident, life) is not True]
                held = {life.pid: mib for life in older if (mib := held_on(incident, life, gpu))}
                if held:
                    row = _row(incident, gpu, used, family, held)
                    told = told or bool(row["came_back_mib"])
                    yield row
        strangers = _only_in_series(incident, gpu)
        if strangers:
            told = True
            yield _row(incident, gpu, used, None, strangers)
        if not told and ledger is not None and not above_baseline(ledger):
            yield from unowned_releases(incident, gpu, ledger)


def held_on(incident: Incident, life: Life, gpu: Gpu) -> float | None:
    """Memory booked on a process in the last look before the newest, or in the sampled series."""
    newest = incident.newest(life.host)
    for seen in reversed(list(life.sightings.values())):
        if seen.look is not newest and gpu.id in seen.held():
            return seen.held()[gpu.id]
    return _series_figure(incident, gpu, life.pid)


def _series_figure(incident: Incident, gpu: Gpu, pid: int) -> float | None:
    figures = [b.mib for b in _series_before(incident, gpu) if b.pid == pid and b.mib is not None]
    return max(figures, default=None)


def _series_before(incident: Incident, gpu: Gpu) -> list[Booking]:
    """What the sampled series books on this GPU before the first command; its first sample, if that has no time."""
    rows = [b for b in incident.parsed.bookings if b.at.look is None and b.at.time_ns is not None]
    own = [b for b in rows if (g := incident.gpus.of(b.at.host, b.gpu)) is not None and g.id == gpu.id]
    first = next((action for action in incident.actions if action.host == gpu.host), None)
    limit = first.action.time_ns if first is not None else None
    if limit is None:
        limit = min((b.at.time_ns for b in own if b.at.time_ns is not None), default=0)
    return [b for b in own if b.at.time_ns is not None and b.at.time_ns <= limit]


def _only_in_series(incident: Incident, gpu: Gpu) -> dict[int, float]:
    known = {life.pid for life in incident.census.lives if life.host == gpu.host}
    pids = {b.pid for b in _series_before(incident, gpu)} - known
    return {pid: mib for pid in sorted(pids) if (mib := _series_figure(incident, gpu, pid))}


def _row(
    incident: Incident, gpu: Gpu, used_now: float | None, family: Family | None, held: dict[int, float]
) -> dict[str, object]:
    action = _action_of(incident, gpu, held)
    still = _still_mib(incident, gpu, family)
    still = None if still is None else still + _moved_mib(incident, gpu, held)
    total = sum(held.values())
    before = incident.memory.level_before(gpu, action.action.time_ns, action.slot) if action is not None else None
    if before is None:
        before = _first_level(incident, gpu)
    back = None if still is None or used_now is None else max(0.0, total - still)
    unowned = _unowned_mib(incident, gpu)
    if back and before is not None and used_now is not None and unowned:
        back = min(back, max(0.0, before - used_now))  # nobody is booked for the rest, and yet it is in use
    if back is None and used_now is not None and used_now < total and _is_idle(incident, gpu):
        back = total - used_now
    after_s, bound, moment = _released_after(incident, gpu, action, before, back)
    return {
        "host": incident.host_id(gpu.host),
        "family": family.id if family is not None else None,
        "gpus": [gpu.id],
        "step": action.steps[0].id if action is not None and action.steps else None,
        "name": family.members[0].title if family is not None else None,
        "held_mib": total,
        "still_mib": still,
        "fell_mib": None if before is None or used_now is None else before - used_now,
        "came_back_mib": back,
        "unowned_mib": unowned,
        "released_after_s": after_s,
        "released_by": datetime.fromtimestamp(moment / SECOND, UTC).isoformat() if moment is not None else None,
        "bound_only": bound,
        "action_seen": action is not None,
        "target_family": _targeted(incident, family, action, held),
        "cites": incident.citations.add_all(
            [incident.ledgers[gpu.id].figure.cited] if gpu.id in incident.ledgers else []
        ),
    }


def _targeted(
    incident: Incident, family: Family | None, action: ActionView | None, held: dict[int, float]
) -> bool | None:
    if family is not None:
        return incident.aims.is_target(family) if incident.aims.targets else None
    return True if action is not None and any(_hits(action, pid) for pid in held) else None


def _action_of(incident: Incident, gpu: Gpu, held: dict[int, float]) -> ActionView | None:
    """The last command that hit one of these processes, else the last one on the host."""
    own = [action for action in incident.actions if action.host == gpu.host]
    for action in reversed(own):
        if any(_hits(action, pid) for pid in held):
            return action
    return own[-1] if own else None


def _hits(action: ActionView, pid: int) -> bool:
    for step in action.steps:
        verdict = step.verdict(pid)
        literal = step.replay.selection is not None and pid in step.replay.selection.literal_pids
        if literal or step.sent_to.get(pid) or (verdict is not None and verdict.selected):
            return True
    return False


def _still_mib(incident: Incident, gpu: Gpu, family: Family | None) -> float | None:
    if not incident.list_seen(gpu.host):
        # Without a list: nobody can hold more than is in use at all.
        ledger = incident.ledgers.get(gpu.id)
        return 0.0 if ledger is not None and ledger.figure.whole and ledger.figure.used_mib < 1 else None
    if _unplaced_newcomers(incident, gpu, family):
        return None
    if family is None:
        return 0.0
    return sum(incident.booked_now(life).get(gpu.id) or 0.0 for life in family.members)


def _unowned_mib(incident: Incident, gpu: Gpu) -> float | None:
    """What is in use and booked on nobody, where a list was taken; ``None`` where that is too little to be a job's."""
    ledger = incident.ledgers.get(gpu.id)
    mib = ledger.total("unattributed") if ledger is not None and ledger.list_seen else 0.0
    return mib if mib > IDLE_MIB else None


def _moved_mib(incident: Incident, gpu: Gpu, held: dict[int, float]) -> float:
    """What others hold now of what these had: it is in use as before."""
    others = (life for life in incident.census.lives if life.host == gpu.host and life.pid not in held)
    moved = [item for life in others for item in takeovers(incident, life)]
    return sum(item.mib for item in moved if item.gpu == gpu.id and item.owner.pid in held)


def _is_idle(incident: Incident, gpu: Gpu) -> bool:
    ledger = incident.ledgers.get(gpu.id)
    return ledger is not None and ledger.figure.whole and not above_baseline(ledger)


def _unplaced_newcomers(incident: Incident, gpu: Gpu, family: Family | None) -> bool:
    """Somebody new is booked on this GPU, and nothing tells whether that is the same job again."""
    for life in incident.census.lives:
        figure = incident.booked_now(life).get(gpu.id)
        if life.host != gpu.host or not figure or incident.family_of(life) is family:
            continue
        newer = newer_than_actions(incident, life)
        # Newer, and nobody recorded who started it: with the same amount of memory it may be the same job again.
        if held_on(incident, life, gpu) is None and (newer is None or (newer and life.born_ppid is None)):
            return True
    return False


def _first_level(incident: Incident, gpu: Gpu) -> float | None:
    newest = incident.newest(gpu.host)
    figures = [
        incident.memory.at_look(gpu, look.id) for look in incident.looks if look.host == gpu.host and look is not newest
    ]
    return next((figure for figure in figures if figure is not None), None)


def _released_after(
    incident: Incident, gpu: Gpu, action: ActionView | None, before: float | None, back: float | None
) -> tuple[float | None, bool | None, int | None]:
    """Seconds from the command to the first sample without the memory; an upper bound where only looks were taken."""
    if action is None or action.action.time_ns is None or before is None or not back or back < NOTICEABLE_MIB:
        return None, None, None
    moment = incident.memory.first_at_or_below(gpu, action.action.time_ns, before - 0.9 * back)
    if moment is None:
        return None, None, None
    sampled = incident.memory.sampled_between(gpu, action.action.time_ns, moment)
    return seconds(moment, action.action.time_ns), not sampled, moment
