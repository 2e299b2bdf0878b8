"""Commands that changed nothing: what was seen before them still holds."""

from __future__ import annotations

from collections.abc import Sequence

from gpudiag.parse.refusals import is_refused
from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.lives import Census

_IDLE = frozenset({"sleep", "echo", "date", "true", "wait", "cd", "nvidia-smi", "ps", "timeout", "sudo"})


def changed_nothing(action: ActionView, census: Census) -> bool:
    """A reset that was refused, or a signal to nobody: to PIDs that do not exist, or to plain zombies."""
    kills = [step for step in action.steps if step.replay.tool is not None]
    others = [step for step in action.steps if step.replay.tool is None and _program(step) not in _IDLE]
    if others:
        return False
    if not kills:
        return _was_refused(action)
    return all(_never_ran(step) or _reached_nobody(step) or _only_zombies(step, action, census) for step in kills)


def _program(step: StepView) -> str | None:
    words = step.replay.step.words
    return words[0].text.rpartition("/")[2] if words and words[0].text else None


def _was_refused(action: ActionView) -> bool:
    return is_refused(action.action.output or "")


def _never_ran(step: StepView) -> bool:
    return step.replay.ran is False and step.replay.ran_proven


def _reached_nobody(step: StepView) -> bool:
    """``kill`` itself said of every PID that it names: no such process."""
    pids: Sequence[int] = step.replay.selection.literal_pids if step.replay.selection is not None else ()
    return bool(pids) and step.absent.issuperset(pids)


def _only_zombies(step: StepView, action: ActionView, census: Census) -> bool:
    """Every PID that it names was a zombie without live threads in the look before."""
    selection = step.replay.selection
    pids: Sequence[int] = selection.literal_pids if selection is not None else ()
    look = action.world_look
    if step.replay.tool != "kill" or not pids or look is None:
        return False
    seen = [life.sightings.get(look.id) for pid in pids for life in census.named(action.host, pid)[-1:]]
    plain = [one is not None and one.zombie and one.live_threads == 0 for one in seen]
    return len(plain) == len(pids) and all(plain)
