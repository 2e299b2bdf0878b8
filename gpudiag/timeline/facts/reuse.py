"""Numbers that belong to another process than before."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.facts.rows import Row, about
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life


def reuse_rows(incident: Incident) -> Iterator[Row]:
    """One row for a PID of the newest look that a command named or hit: the same process, or another by now?"""
    named_by = _named_by(incident)
    for life in incident.census.lives:
        look = incident.newest(life.host)
        if look is None or look.id not in life.sightings:
            continue
        earlier = [other for other in incident.census.named(life.host, life.pid) if other.generation < life.generation]
        named = named_by.get((life.host, life.pid), [])
        if not named and not (earlier and incident.holds_now(life)):
            continue
        yield about(incident, life) | {
            "other_before": _other_before(life, earlier, named),
            "by_name_only": life.told_apart_by == "name",
            "before_name": earlier[-1].title if earlier else None,
            "step": named[0].steps[0].id if named and named[0].steps else None,
            "cites": incident.citations.add_all([*life.citations(), *(earlier[-1].citations()[:1] if earlier else [])]),
        }


def _named_by(incident: Incident) -> dict[tuple[str, int], list[ActionView]]:
    """Host and PID -> the commands that name it."""
    found: dict[tuple[str, int], list[ActionView]] = {}
    for action in incident.actions:
        selections = [step.replay.selection for step in action.steps if step.replay.selection is not None]
        for pid in {pid for selection in selections for pid in selection.literal_pids}:
            found.setdefault((action.host, pid), []).append(action)
    return found


def _other_before(life: Life, earlier: list[Life], named: list[ActionView]) -> bool | None:
    """Another process had this number in an earlier look; unknown where no earlier look shows its start."""
    if earlier:
        return True
    first = min((action.slot for action in named), default=-1.0)
    before = [seen for seen in life.sightings.values() if seen.look.position < first]
    after = [seen for seen in life.sightings.values() if seen.look.position > first]
    starts = [seen.first("start_ticks") or seen.first("elapsed_s") for seen in (*before[-1:], *after[-1:])]
    return False if len(starts) == 2 and all(start is not None for start in starts) else None
