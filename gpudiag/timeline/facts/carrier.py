"""Steps that may have hit the shell that carries them."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.facts.reach import signal_name
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.incident import Incident

SHELL_NAMES = {
    "ssh": "the remote shell that ran it",
    "bash -c": "the bash -c that ran it",
    "sh -c": "the sh -c that ran it",
    "su -c": "the shell of su that ran it",
    "unknown -c": "the shell that ran it",
    "stated": "a shell that was given the line (ssh, bash -c)",
    "script": "the shell that runs the script",
    "prompt": "the shell at the prompt",
    "sudo": "its own sudo",
    "timeout": "its own timeout",
}
"""How a person would call the process that carries the step."""


def carrier_rows(incident: Incident) -> Iterator[Row]:
    """One row a killing step and carrier."""
    for action in incident.actions:
        for item in action.replay.carriers:
            step = action.steps[item.step]
            away = item.carrier.host != step.replay.step.host or step.elsewhere
            if item.carrier.kind == "client" or away:
                continue  # a client on the person's own machine is out of reach; su and docker belong to root
            later_kills = sum(action.steps[n].replay.tool is not None for n in item.later_steps)
            # Of its forms only the one that is given the line looks different to the tool.
            assumed = item.carrier.kind == "stated" and item.matches is None
            yield _row(incident, action, step, item.carrier.kind, item.carrier.cmdline) | {
                "matches": True if assumed else item.matches,
                "assumed": assumed,
                "unless": "it was typed at a prompt, whose shell does not have the line" if assumed else None,
                "execs": item.execs,
                "signal_fatal": item.signal_fatal,
                "later_steps": [action.steps[n].id for n in item.later_steps],
                "later_text": "; ".join(action.steps[n].replay.step.text for n in item.later_steps),
                "later_kills": later_kills,
                "family_holds_mib": held_by_targets(incident, action, step) if later_kills else None,
                "death_seen": item.death_seen,
                "death_how": item.death_how,
            }


def _row(incident: Incident, action: ActionView, step: StepView, kind: str, cmdline: str | None) -> dict[str, object]:
    selection = step.replay.selection
    aimed = incident.aims.by_step.get(step.id, frozenset())
    targets = [family for family in incident.families if any(life.key in aimed for life in family.members)]
    return {
        "host": incident.host_id(action.host),
        "family": targets[0].id if len(targets) == 1 else None,
        "gpus": [],
        "step": step.id,
        "step_text": step.replay.step.text,
        "tool": step.replay.tool,
        "signal": signal_name(step.replay.signal),
        "pattern": selection.pattern if selection is not None else None,
        "shell": SHELL_NAMES.get(kind, kind),
        "shell_text": cmdline,
        "cites": incident.citations.add_all([action.action.cited, *step.cites]),
    }


def held_by_targets(incident: Incident, action: ActionView, step: StepView) -> float | None:
    """What the families that the step was meant for still hold; with no owner known, what the GPUs still hold."""
    aimed = incident.aims.by_step.get(step.id, frozenset())
    lives = [life for family in incident.families for life in family.members if life.key in aimed]
    figures = [figure for life in lives if (figure := incident.holds_now(life)) is not None]
    if figures:
        return sum(figures)
    ledgers = [book for gpu, book in incident.ledgers.items() if incident.gpus.get(gpu).host == action.host]
    if not ledgers or any(book.list_seen for book in ledgers):
        return None
    return sum(book.total("unattributed") for book in ledgers)
