"""Words that are no PID in the list of a ``kill``: rows about no process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudiag.model import Citation
from gpudiag.parse.list_words import refused_words
from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.incident import Incident

MAX_ROWS = 100
"""Further words tell nothing that the first ones do not."""


def mistaken_words(incident: Incident) -> Iterator[Row]:
    """One row a word: of a recorded command with its step, of a script's log without."""
    rows: dict[tuple[str, str], Row] = {}
    for action in incident.actions:
        step = _lister(action)
        for _, word in refused_words(action.action.output or ""):
            row = _row(incident, action.host, word, step, [action.action.cited])
            rows.setdefault((action.host, word), row)
    for said in incident.parsed.refused_words:
        key = (said.at.host, said.word)
        if key not in rows and said.at.host in incident.hosts():
            rows[key] = _row(incident, said.at.host, said.word, None, [said.cited])
    yield from list(rows.values())[:MAX_ROWS]


def _lister(action: ActionView) -> StepView | None:
    """The step that was given a list."""
    own = [step for step in action.steps if step.replay.tool == "kill"]
    return next((step for step in own if step.replay.list_from is not None), own[0] if len(own) == 1 else None)


def _row(incident: Incident, host: str, word: str, step: StepView | None, cited: Sequence[Citation]) -> Row:
    return {
        "host": incident.host_id(host),
        "gpus": [],
        "tool": "kill",
        "matcher": "kill",
        "step": step.id if step is not None else None,
        "step_text": step.replay.step.text if step is not None else None,
        "list_from": step.replay.list_from if step is not None else None,
        "no_pid": word,
        "selected": False,
        "ran": True,
        "ran_proven": True,
        "cites": incident.citations.add_all(cited),
    }
