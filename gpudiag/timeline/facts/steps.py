"""Killing steps by themselves: whether they could hit anything at all, and whether they were ever run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.shell.tools.common import COMM_BYTES
from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.facts.carrier import held_by_targets
from gpudiag.timeline.facts.reach import signal_name
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.facts.strays import stray_columns
from gpudiag.timeline.incident import Incident

PATTERN_TOOLS = frozenset({"pkill", "killall"})
_LITERAL = re.compile(r"[\w:@%/ ,=~.-]+\Z")
"""Each character of it stands for one (a dot for any), so it is found in no shorter text."""
_FOREIGN = (
    (re.compile(r"\\[dD]"), r"\d is Python's and Perl's; to regcomp it is the letter d"),
    (re.compile(r"\(\?[a-zA-Z:=!<]"), "(?…) is Python's and Perl's; regcomp refuses it or takes it for something else"),
    (re.compile(r"\\\|"), r"\| is a plain bar in an extended expression; alternatives are parted by | alone"),
)


def step_rows(incident: Incident) -> Iterator[Row]:
    """One row a killing step."""
    for action in incident.actions:
        for step in action.steps:
            if step.replay.tool is not None:
                yield _row(incident, action, step)


def _row(incident: Incident, action: ActionView, step: StepView) -> Row:
    selection = step.replay.selection
    hopeless = _hopeless(step)
    why = _why_not_run(step)
    return {
        "host": incident.host_id(action.host),
        "gpus": [],
        "step": step.id,
        "step_text": step.replay.step.text,
        "tool": step.replay.tool,
        "signal": signal_name(step.replay.signal),
        "pattern": selection.pattern if selection is not None else None,
        "hopeless": hopeless[0],
        "hopeless_why": hopeless[1],
        "ran": step.replay.ran,
        "ran_proven": step.replay.ran_proven,
        "not_run_why": why,
        "held_mib": held_by_targets(incident, action, step),
        **stray_columns(incident, action, step),
        "cites": incident.citations.add_all([action.action.cited, *step.cites[:2]]),
    }


def _hopeless(step: StepView) -> tuple[bool | None, str | None]:
    """No process whatever can match: (None = the pattern is not known, why)."""
    selection = step.replay.selection
    if step.replay.tool not in PATTERN_TOOLS or selection is None:
        return False, None
    if selection.error is not None:
        return True, f"the tool refuses it: {selection.error}"
    if selection.pattern is None:
        return (None, None) if not selection.understood or step.replay.step.words[-1].text is None else (False, None)
    foreign = next((why for shape, why in _FOREIGN if shape.search(selection.pattern)), None)
    if foreign is not None and not any(verdict.selected for verdict in selection.verdicts):
        return True, foreign
    size = len(selection.pattern.encode())
    by_comm = step.replay.tool == "pkill" and selection.against == "comm"
    if by_comm and size > COMM_BYTES and _LITERAL.match(selection.pattern):
        return True, f"without -f it is compared with at most {COMM_BYTES} bytes of a name, and it has {size}"
    return False, None


def _why_not_run(step: StepView) -> str | None:
    """Why it was not, or perhaps not, run; the death of its own shell is another cause (GPD102)."""
    if step.replay.ran is True or "killed" in step.replay.ran_because:
        return None
    return step.replay.ran_because
