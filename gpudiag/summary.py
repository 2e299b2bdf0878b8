"""The one or two sentences that stand above everything else."""

from __future__ import annotations

from collections.abc import Sequence

from gpudiag.report.contract import Action, ActionStep, Plan
from gpudiag.report.text import mib as size
from gpudiag.report.text import pids as pid_ranges
from gpudiag.rules.engine import Match
from gpudiag.timeline.incident import Incident
from gpudiag.verdict import HELD, NOTHING, RELEASED, RELEASING, Verdict


def summarise(incident: Incident, verdict: Verdict, plan: Plan, actions: Sequence[Action]) -> str:
    """What happened and what to do, for somebody who reads nothing else."""
    if verdict.outcome == HELD:
        return " ".join(filter(None, (_what_happened(actions), _held(incident, plan))))
    if verdict.outcome == RELEASING:
        return f"{_leaving(verdict)} Wait and look again; do not kill anything more."
    if verdict.outcome == RELEASED:
        return f"The memory came back{_how_fast(verdict)}. {_left_over(incident)}".strip()
    if verdict.outcome == NOTHING:
        return "No GPU holds memory that anything here would have to give back."
    return " ".join(filter(None, (_what_happened(actions), _unclear(incident, plan))))


def _what_happened(actions: Sequence[Action]) -> str:
    for action in actions:
        killers = [step for step in action.steps if step.tool is not None]
        said = [text for step in killers if (text := _step(step))]
        if said:
            return "; ".join(said) + "."
    return ""


def _step(step: ActionStep) -> str:
    if step.ran == "no":
        return f"{step.tool} never ran"
    hit = [*([pid_ranges(step.hit)] if step.hit else []), *step.hit_shells]
    if hit:
        return f"{step.tool} hit {' and '.join(hit)}"
    if step.not_permitted:
        return f"{step.tool} was not permitted to signal {pid_ranges(step.not_permitted)}"
    return f"{step.tool} hit nothing that this evidence shows" if step.ran == "yes" else ""


def _held(incident: Incident, plan: Plan) -> str:
    total = sum(ledger.figure.used_mib for ledger in incident.ledgers.values())
    on = f"{len(incident.ledgers)} GPUs" if len(incident.ledgers) > 1 else "the GPU"
    first = f"{plan.stop_first[0].kind.replace('_', ' ')} {plan.stop_first[0].id}" if plan.stop_first else None
    if plan.kill:
        pids = pid_ranges([entry.pid for entry in plan.kill])
        frees = sum(entry.frees_mib or 0 for entry in plan.kill)
        one = len(plan.kill) == 1
        listed = f"{pids} {'is' if one else 'are'} listed as holding the {size(total)} on {on}"
        holds = f"{pids} {'holds' if one else 'hold'} {size(frees)}" if frees else listed
        stop = f"First stop the {first}, then kill" if first else "Kill"
        return f"{holds}. {stop} {'it' if one else 'them in the order below'}."
    if first:
        return f"The memory is taken again after every kill: stop the {first} first."
    waits = [entry.because for entry in plan.then if entry.kind == "wait"]
    if waits:
        return f"{size(total)} on {on}: {'; '.join(waits)}. Wait and look again."
    if any(entry.life is not None for ledger in incident.ledgers.values() for entry in ledger.entries):
        return f"{size(total)} on {on} are held by living processes; nothing shows which of them were to be stopped."
    if all(ledger.list_seen for ledger in incident.ledgers.values()):
        return f"{size(total)} on {on} are still held, and no process list names who holds them."
    return f"{size(total)} on {on} are still held, and no list of the holders was taken: no PID can be named yet."


def _leaving(verdict: Verdict) -> str:
    match = next((m for m in verdict.findings if m.rule_id == "GPD301"), None)
    if match is None:
        return "The memory is on its way back."
    expected = match.measures.get("expected_release_s")
    after = f", about {expected:.0f} s in all" if expected else ""
    return f"SIGKILL reached {pid_ranges(match.pids)}; the driver is still giving the memory back{after}."


def _how_fast(verdict: Verdict) -> str:
    times = [m.measures["released_after_s"] for m in verdict.findings if _timed(m)]
    return f" {max(times):.1f} s after the command" if times else ""


def _timed(match: Match) -> bool:
    return match.rule_id == "GPD605" and "released_after_s" in match.measures


def _left_over(incident: Incident) -> str:
    others = sum(
        entry.mib for ledger in incident.ledgers.values() for entry in ledger.entries if entry.life is not None
    )
    return f"The {size(others)} still in use belong to somebody else." if others >= 1 else "Nothing is left to do."


def _unclear(incident: Incident, plan: Plan) -> str:
    if not incident.ledgers:
        known = " The processes below are known to be left over." if plan.kill else ""
        return (
            f"The evidence has no GPU memory figure after the last command, so nothing can be said about memory.{known}"
        )
    if any(entry.life is not None for ledger in incident.ledgers.values() for entry in ledger.entries):
        return "Living processes hold memory, and the evidence does not show whether they are what was to be stopped."
    return "Memory is in use, and the evidence does not show who holds it; what is missing stands below."
