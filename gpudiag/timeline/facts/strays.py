"""PIDs that a ``kill`` was given and that were not the holder's: nobody's any more, another process's by then, or
numbers of another column of ``ps``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpudiag.shell.lines import Substitution
from gpudiag.shell.scopes import scopes
from gpudiag.shell.tools.columns import of_ps, printed
from gpudiag.shell.wrappers import strip
from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.facts.carrier import held_by_targets
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life
from gpudiag.timeline.messages import no_such_process
from gpudiag.timeline.pid_lists import pid_lists
from gpudiag.timeline.presence import alive_then
from gpudiag.timeline.recycled import strangers

MAX_PIDS = 50
"""PIDs of one step that are named; more tell nothing new."""
_OUTPUT_CAP = 65536


@dataclass(frozen=True)
class Strays:
    """The numbers of one step that named nobody or a stranger."""

    pids: tuple[int, ...] = ()
    how: str | None = None
    shown: bool = True
    known: bool = True
    """Whether the numbers were anybody's is known."""


NONE, UNTOLD = Strays(), Strays(known=False)


def stray_columns(incident: Incident, action: ActionView, step: StepView) -> dict[str, object]:
    """Columns of one killing step."""
    found = strays(incident, action, step)
    column = wrong_column(step)
    return {
        "stray_pids": [str(pid) for pid in found.pids[:MAX_PIDS]] if found.known else None,
        "stray_how": found.how,
        "stray_shown": found.shown if found.pids else True if column is not None else None,
        "wrong_column": column,
        "left_mib": left_beside(incident, action, step),
    }


def strays(incident: Incident, action: ActionView, step: StepView) -> Strays:
    """The PIDs that it was given and that were nobody's, or somebody else's by then."""
    if step.replay.tool != "kill" or step.replay.ran is False or step.replay.selection is None:
        return NONE
    if not _written(step) and scopes(step.replay.step):
        return NONE  # it was given a group or somebody's children, no PID
    if _in_another_namespace(incident, action, step):
        return UNTOLD
    given = _given(incident, action, step)
    for pid in given or ():
        pair = _recycled(incident, action, pid)
        if pair is not None:
            return Strays((pid,), _how_recycled(*pair))
    absent = _said_absent(action, step)
    if absent:
        return _nobodys(incident, action, step, absent)
    if given is None:
        return NONE if any(not _reads_file(one) for one in _lists(step)) else UNTOLD
    return NONE if absent is not None or action.world_pids.issuperset(given) else UNTOLD


def _in_another_namespace(incident: Incident, action: ActionView, step: StepView) -> bool:
    """A number that is nobody's in a container may be somebody's outside, unless the holders are seen inside."""
    look = incident.newest(action.host)
    if step.replay.step.container is not None:
        return True
    if look is None or not incident.census.is_apart(look):
        return False
    here = [life.sightings[look.id] for life in incident.census.lives if look.id in life.sightings]
    return not any(seen.bookings and seen.in_table for seen in here)


def _given(incident: Incident, action: ActionView, step: StepView) -> tuple[int, ...] | None:
    """The PIDs that are written in it or that a file held when it was printed; ``None`` if that is not known."""
    positions = {look.id: look.position for look in incident.looks if look.host == action.host}
    files = [one for one in incident.parsed.pid_files if positions.get(one.at.look or "", action.slot) < action.slot]
    held = pid_lists(action.action, files)
    lists = [held.get(one.text.strip()) for one in _lists(step)]
    pids = (*_written(step), *(pid for one in lists for pid in sorted(one or ())))
    return pids if pids and None not in lists else None


def _lists(step: StepView) -> list[Substitution]:
    words = step.replay.step.words
    fed = step.replay.step.fed_by
    return [one for word in words for one in word.substitutions] + ([fed] if fed is not None else [])


def _said_absent(action: ActionView, step: StepView) -> frozenset[int] | None:
    """PIDs for which ``kill`` said that there is no such process; ``None`` if its words would not be here.

    Only of numbers that were written down or read from a file: what ``ps`` and ``pgrep`` print may have ended since.
    """
    output = action.action.output
    if any(not _reads_file(one) for one in _lists(step)):
        return frozenset()
    if output is None or step.replay.step.hides_errors:
        return None
    literal = _written(step)
    said = Counter(no_such_process(output[:_OUTPUT_CAP], literal))
    kills = [one for one in action.steps if one.replay.tool == "kill"]
    if literal:
        # Several steps that name it: the first ones reached it, unless each of them said so.
        named = {pid: sum(pid in _written(one) for one in kills) for pid in literal}
        return frozenset(pid for pid in literal if said[pid] >= named[pid])
    return frozenset(said) if len(kills) == 1 else None


def _written(step: StepView) -> tuple[int, ...]:
    return step.replay.selection.literal_pids if step.replay.selection is not None else ()


def _reads_file(made: Substitution) -> bool:
    """``$(cat FILE)`` and ``$(< FILE)``."""
    program = (made.pipeline[0][0].text or "") if made.pipeline and made.pipeline[0] else ""
    return (program == "cat" and len(made.pipeline) == 1) or made.text.lstrip().startswith("<")


def _nobodys(incident: Incident, action: ActionView, step: StepView, absent: frozenset[int]) -> Strays:
    """Those that no look shows, no list and no log names, and that no earlier command can have ended."""
    unknown = sorted(pid for pid in absent if not _was_somebody(incident, action, pid))
    if not unknown:
        return NONE
    if not all(_never_there(incident, action, step, pid) for pid in unknown):
        return UNTOLD
    return Strays(tuple(unknown), "no process had it")


def _was_somebody(incident: Incident, action: ActionView, pid: int) -> bool:
    """A look, a log or the kernel knows the number; or somebody's parent, group or session still has it."""
    own = (life for life in incident.census.lives if life.host == action.host)
    if any(pid in (life.born_ppid, life.integer("pgid"), life.integer("sid")) for life in own):
        return True
    lives = incident.census.named(action.host, pid)
    logged = {role.pid for role in incident.parsed.roles} | {e.pid for e in incident.log_events(action.host)}
    reported = {event.pid for event in incident.kernel_events(pid=pid)}
    return any(life.sightings for life in lives) or pid in logged or pid in reported


def _never_there(incident: Incident, action: ActionView, step: StepView, pid: int) -> bool:
    """A whole table taken before the commands lacks it, or none of them can have ended it."""
    earlier = list(_steps_before(incident, action, step))
    if not earlier:
        return True
    first = min((one.slot for one in incident.actions if one.host == action.host), default=action.slot)
    looks = (look for look in incident.looks if look.host == action.host and look.position < first)
    if any(incident.census.sees_everybody(look) for look in looks):
        return True
    return all(_written(one) and pid not in _written(one) for one in earlier)


def _steps_before(incident: Incident, action: ActionView, step: StepView) -> Iterator[StepView]:
    """Killing steps on the host that came before it and may have run."""
    for one in incident.actions:
        for other in one.steps if one.host == action.host else ():
            if one is action and other is step:
                return
            if (other.replay.tool is not None or other.replay.stop is not None) and other.replay.ran is not False:
                yield other


def _recycled(incident: Incident, action: ActionView, pid: int) -> tuple[Life, Life] | None:
    """The process that served under this number in an earlier look, and the one that had it when it was sent."""
    lives = incident.census.named(action.host, pid)
    then = [life for life in lives if alive_then(incident, action, life) is True]
    found = strangers(then[-1:], incident.census, incident.kinship)
    return next(((was, by_then) for by_then, was in found.items()), None)


def _how_recycled(was: Life, by_then: Life) -> str:
    return f"it had been {was.title or 'another process'} and was {by_then.title or 'another process'} by then"


def wrong_column(step: StepView) -> str | None:
    """The heading of the column that an awk or cut took from ``ps``, if it is known and not the PID's."""
    for made in _lists(step) if step.replay.tool == "kill" else ():
        stages = [strip(words).words for words in made.pipeline]
        if not stages or not all(stages) or _name(stages[0][0].text) != "ps":
            continue
        picker = next((stage for stage in stages if _name(stage[0].text) in ("awk", "cut")), None)
        squeezed = any(_name(stage[0].text) == "tr" for stage in stages)
        number = printed(picker, squeezed=squeezed) if picker is not None else None
        columns = of_ps([word.template for word in stages[0][1:]])
        if number and columns and number <= len(columns) and columns[number - 1] != "pid":
            return f"column {number} ({columns[number - 1].upper()})"
    return None


def _name(text: str | None) -> str:
    return (text or "").rsplit("/", 1)[-1]


def left_beside(incident: Incident, action: ActionView, step: StepView) -> float | None:
    """What its aims still hold; with none, what was aimed at by the others; else what the host's only owner holds."""
    meant = held_by_targets(incident, action, step)
    if meant is not None:
        return meant
    members = [life for family in incident.families if family.host == action.host for life in family.members]
    holders = [life for life in members if incident.booked_now(life) and incident.alive(life) is not False]
    aimed = [life for life in holders if incident.aims.is_aimed(life)]
    owners = {life.string("user") for life in holders}
    if not incident.list_seen(action.host) or (not aimed and len(owners) > 1):
        return None
    if not aimed and action.caller.is_root is False and owners - {None, action.caller.user}:
        return 0.0
    figures = [incident.holds_now(life) for life in aimed or holders]
    return sum(figure for figure in figures if figure is not None) if None not in figures else None
