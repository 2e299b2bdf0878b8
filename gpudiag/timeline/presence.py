"""Whether a process was there when a command ran: from looks, start times, or the order of a transcript."""

from __future__ import annotations

from itertools import islice

from gpudiag.shell.signals import KILL
from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.kinship import MAX_DEPTH
from gpudiag.timeline.lives import LOCAL_ERROR_S, UNKNOWN_GPU, Life
from gpudiag.timeline.order import told_to_recorder
from gpudiag.timeline.samples import IDLE_MIB
from gpudiag.timeline.supervision import supervision_of


def alive_then(incident: Incident, action: ActionView, life: Life) -> bool | None:
    """It existed when the command ran: seen in an earlier look and not dead there, or started before."""
    if life.pid in {pid for step in action.steps for pid, sent in step.sent_to.items() if sent}:
        return True
    earlier = [s for s in life.sightings.values() if s.look.position < action.slot]
    if earlier:
        last = earlier[-1]
        base = action.world_look
        if (
            last.in_table
            and base is not None
            and last.look is not base
            and incident.census.present(life, base) is False
        ):
            return False
        return not (last.zombie and last.live_threads == 0)
    newer = _by_clock(action, life)
    newer = newer if newer is not None else _by_local_clock(action, life)
    newer = newer if newer is not None else _by_absence(incident, action, life)
    if newer is not None:
        return not newer
    if _server_was_there(incident, action, life) or _read_off_it(action, life):
        return True
    later_reader = next((s for s in life.sightings.values() if s.look.position > action.slot), None)
    base = action.world_look
    if later_reader is None or (base is not None and incident.census.shows_processes(base)):
        return None  # an earlier look does not have it: it may be new
    return _too_old_to_be_new(action, later_reader.look.position)


def _server_was_there(incident: Incident, action: ActionView, life: Life) -> bool:
    """The killed server to which only start times tie it was seen before the command: it began while that lived."""
    server = incident.kinship.parent(life) if incident.kinship.is_guessed(life) else None
    return server is not None and any(seen.look.position < action.slot for seen in server.sightings.values())


def _read_off_it(action: ActionView, life: Life) -> bool:
    """Who stated the command named this PID before it was looked at, by a signal that this process can live through."""
    steps = [step.replay for step in action.steps if step.replay.signal != KILL]
    return told_to_recorder(action.action) and any(
        step.selection is not None and life.pid in step.selection.literal_pids for step in steps
    )


def _by_clock(action: ActionView, life: Life) -> bool | None:
    """It started after the command, by wall time; ``None`` within the errors of the two."""
    if life.start_ns is None:
        return None
    if action.latest_ns is not None and life.start_ns - life.start_error_ns > action.latest_ns:
        return True
    if action.earliest_ns is not None and life.start_ns + life.start_error_ns <= action.earliest_ns:
        return False
    return None


def _by_absence(incident: Incident, action: ActionView, life: Life) -> bool | None:
    """A look after the command shows everybody and not it: it started later still."""
    first = min(seen.look.position for seen in life.sightings.values())
    between = (look for look in incident.looks if look.host == life.host and action.slot < look.position < first)
    return True if any(incident.census.sees_everybody(look) for look in between) else None


def _by_idle_gpus(incident: Incident, action: ActionView, life: Life) -> bool | None:
    """A look after the command finds every GPU idle on which it holds memory later: what it holds is no remainder."""
    first = min(seen.look.position for seen in life.sightings.values())
    between = [look for look in incident.looks if look.host == life.host and action.slot < look.position < first]
    names = {gpu for seen in life.sightings.values() for gpu in seen.held() if gpu != UNKNOWN_GPU}
    held = [incident.gpus.get(name) for name in names]
    figures = [[incident.memory.at_look(gpu, look.id) for gpu in held] for look in between if held]
    return True if any(all(f is not None and f <= IDLE_MIB for f in at_look) for at_look in figures) else None


def _by_local_clock(action: ActionView, life: Life) -> bool | None:
    """It started after the command, by the host's own clock; ``None`` where that does not tell."""
    given, start = action.action.local_s, life.local_start_s
    if given is None or start is None or abs(start - given) <= LOCAL_ERROR_S:
        return None
    return start > given


def _too_old_to_be_new(action: ActionView, position: int) -> bool | None:
    """In a transcript nothing but the commands shown was done: what the next look shows was there before them."""
    if action.action.source != "transcript":
        return None
    starts = any(step.replay.tool is None and _may_start_something(step) for step in action.steps)
    return None if starts else (True if position - action.slot < 1 else None)


def _may_start_something(step: StepView) -> bool:
    first = step.replay.step.words[0].text if step.replay.step.words else None
    return first not in {
        "sleep",
        "echo",
        "nvidia-smi",
        "ps",
        "pgrep",
        "fuser",
        "lsof",
        "cd",
        "true",
        "wait",
        "date",
        "ls",
        "rm",
        "cat",
        "mv",
        "touch",
        "mkdir",
        "head",
        "tail",
        "grep",
    }


def alive_before(incident: Incident, life: Life) -> bool | None:
    """It existed before the first command."""
    first = next((action for action in incident.actions if action.host == life.host), None)
    if first is None:
        return None
    return alive_then(incident, first, life)


def newer_than_actions(incident: Incident, life: Life) -> bool | None:
    """It started after the last command."""
    last = incident.last_action(life.host)
    if last is None:
        return None
    if any(seen.look.position < last.slot for seen in life.sightings.values()):
        return False
    newer = _by_clock(last, life)
    newer = newer if newer is not None else _by_local_clock(last, life)
    newer = newer if newer is not None else _by_absence(incident, last, life)
    newer = newer if newer is not None else _by_idle_gpus(incident, last, life)
    if newer is not None:
        return newer
    if life.start_ns is not None and last.action.time_ns is not None:
        return True if _is_of_a_newcomer(incident, last, life) else None
    base = last.world_look
    return True if base is not None and incident.census.covers(base, life) else None


def _is_of_a_newcomer(incident: Incident, last: ActionView, life: Life) -> bool:
    """It, or an ancestor, stands in the place of one that died: the child of a newcomer is no older."""
    line = [life, *islice(incident.kinship.ancestors(life), MAX_DEPTH)]
    return any(_took_the_place_of_the_dead(incident, last, one) for one in line)


def _took_the_place_of_the_dead(incident: Incident, action: ActionView, life: Life) -> bool:
    """Its supervisor starts one again when one has died, and one that the look before the command shows is dead now."""
    watched = supervision_of(life, incident.kinship, incident.book)
    base = action.world_look
    if watched is None or base is None or not incident.census.covers(base, life):
        return False
    return any(
        other.cmdline == life.cmdline and base.id in other.sightings and incident.present(other) is False
        for other in incident.census.lives
        if incident.kinship.parent(other) is watched.parent
    )
