"""The one or two sentences that stand above everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudiag.ranges import number_ranges
from gpudiag.report.contract import Action, ActionStep, Plan
from gpudiag.report.text import mib as size
from gpudiag.rules.engine import Match
from gpudiag.timeline.daemons import is_of_the_machine
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.ledger import Entry
from gpudiag.timeline.lives import UNKNOWN_GPU
from gpudiag.timeline.shortage import shortage_of
from gpudiag.verdict import HELD, NOTHING, NOTICEABLE_MIB, RELEASED, RELEASING, Verdict

BELOW = {
    "GPD502": "The GPU itself is in trouble, and no kill helps: it needs a reset or a reboot.",
    "GPD501": "{pids} cannot end inside the kernel, and no kill helps.",
    "GPD403": "{pids} holds memory and is hidden from the process table: somebody else may have root on this machine.",
    "GPD504": "The driver did not answer, so nothing is known about the memory; it is not zero.",
    "GPD402": "The driver does not say here how much memory is whose, so it cannot be told who holds it.",
}
MAX_NAMED = 8
"""PIDs of a message that the sentence names."""


def summarise(incident: Incident, verdict: Verdict, plan: Plan, actions: Sequence[Action]) -> str:
    """What happened and what to do, for somebody who reads nothing else."""
    below = _below(verdict)
    settled = verdict.outcome in (RELEASING, RELEASED, NOTHING)
    if below is not None and not settled and not plan.kill and not plan.stop_first:
        return " ".join(filter(None, (_what_happened(actions), below)))
    if verdict.outcome == HELD:
        return " ".join(filter(None, (_what_happened(actions), _held(incident, verdict, plan))))
    if verdict.outcome == RELEASING:
        return f"{_leaving(verdict)} Wait and look again; do not kill anything more."
    if verdict.outcome == RELEASED:
        others = _others_hit(actions)
        back = f"The memory came back{_how_fast(verdict)}."
        return " ".join(filter(None, (back, others, _left_over(incident, nothing_else=not others))))
    if verdict.outcome == NOTHING:
        none = "No GPU holds memory that anything here would have to give back."
        return " ".join(filter(None, (none, _others_hit(actions))))
    return " ".join(filter(None, (_what_happened(actions), _unclear(incident, plan))))


def _below(verdict: Verdict) -> str | None:
    """What is wrong below the processes, or keeps the driver from telling; of several the first that is sure."""
    for rule, text in BELOW.items():
        match = next((m for m in verdict.findings if m.rule_id == rule and m.certainty != "possible"), None)
        if match is not None:
            held = f" {size(match.explains_mib)} are held so." if match.explains_mib else ""
            return text.format(pids=number_ranges(match.pids)) + held
    return None


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
    hit = [*([number_ranges(step.hit)] if step.hit else []), *step.hit_shells]
    if hit:
        return f"{step.tool} hit {' and '.join(hit)}"
    if step.not_permitted:
        return f"{step.tool} was not permitted to signal {number_ranges(step.not_permitted)}"
    if step.ran == "unknown":
        return f"whether {step.tool} ran is not known"
    return f"{step.tool} hit nothing that this evidence shows"


def _held(incident: Incident, verdict: Verdict, plan: Plan) -> str:
    total = sum(ledger.figure.used_mib for ledger in incident.ledgers.values())
    on = f"{len(incident.ledgers)} GPUs" if len(incident.ledgers) > 1 else "the GPU"
    first = f"{plan.stop_first[0].kind.replace('_', ' ')} {plan.stop_first[0].id}" if plan.stop_first else None
    if plan.kill:
        pids = number_ranges([entry.pid for entry in plan.kill])
        frees = sum(entry.frees_mib or 0 for entry in plan.kill)
        one = len(plan.kill) == 1
        heirs = {life.pid for item in incident.inherited for life in item.heirs}
        listed = f"{pids} {'is' if one else 'are'} listed as holding the {size(total)} on {on}"
        blind = any(incident.is_blind(look) for host in incident.hosts() if (look := incident.newest(host)) is not None)
        if blind or not any(ledger.list_seen for ledger in incident.ledgers.values()):
            left = f"{pids} {'is' if one else 'are'} left of the server that was ended"
            list_ = "the list of the holders names nobody here" if blind else "no list of the holders was taken"
            listed = f"{left}, and {size(total)} on {on} are in use; {list_}"
        if heirs.issuperset(entry.pid for entry in plan.kill):
            listed = f"{pids} still {'has' if one else 'have'} the device files of a dead process open"
        holds = f"{pids} {'holds' if one else 'hold'} {size(frees)}" if frees else listed
        stop = f"First stop the {first}, then kill" if first else "Kill"
        return f"{holds}. {stop} {'it' if one else 'them in the order below'}."
    if first and plan.stop_first[0].kind == "sidecar":
        return f"The {first} keeps memory that a server left to it: stop it by its own service, or as below."
    if first:
        if any(match.rule_id == "GPD205" for match in verdict.findings):
            return f"The memory is taken again after every kill: stop the {first} first."
        return f"{size(total)} on {on} are in use; {first} is to be ended by its own command below, not by a PID."
    waits = [entry.because for entry in plan.then if entry.kind == "wait"]
    if waits:
        return f"{size(total)} on {on}: {'; '.join(waits)}. Wait and look again."
    jobs, nobodys = _by_processes(incident), _by_nobody(incident)
    if jobs and nobodys >= NOTICEABLE_MIB:
        return (
            f"Of {size(total)} on {on}, {size(jobs)} are held by {_whoever(incident)} and {size(nobodys)} by nobody "
            "that a list names; nothing shows what was to be stopped."
        )
    if jobs or _lists_jobs(incident):
        who = _whoever(incident)
        return f"{size(total)} on {on} are held by {who}; nothing shows which of them were to be stopped."
    if all(ledger.list_seen for ledger in incident.ledgers.values()):
        return f"{size(total)} on {on} are still held, and no process list names who holds them."
    return f"{size(total)} on {on} are still held, and no list of the holders was taken: no PID can be named yet."


def _leaving(verdict: Verdict) -> str:
    match = next((m for m in verdict.findings if m.rule_id == "GPD301"), None)
    if match is None:
        return "The memory is on its way back."
    expected = match.measures.get("expected_release_s")
    after = f", about {expected:.0f} s in all" if expected else ""
    return f"SIGKILL reached {number_ranges(match.pids)}; the driver is still giving the memory back{after}."


def _how_fast(verdict: Verdict) -> str:
    times = [m.measures["released_after_s"] for m in verdict.findings if _timed(m)]
    return f" {max(times):.1f} s after the command" if times else ""


def _timed(match: Match) -> bool:
    return match.rule_id == "GPD605" and "released_after_s" in match.measures


def _others_hit(actions: Sequence[Action]) -> str:
    """The price of a kill that worked."""
    hit = sorted({pid for action in actions for step in action.steps for pid in step.collateral})
    if not hit:
        return ""
    were = "was" if len(hit) == 1 else "were"
    return f"The kill also hit {number_ranges(hit)}, which {were} no part of it: tell the owner."


def _left_over(incident: Incident, *, nothing_else: bool) -> str:
    entries = [entry for ledger in incident.ledgers.values() for entry in ledger.entries if entry.life is not None]
    others = sum(entry.mib for entry in entries)
    if others >= 1:
        owners = {family.user for family in incident.families if family.id in incident.aims.targets} - {None}
        users = {entry.life.string("user") for entry in entries if entry.life is not None and entry.mib >= 1}
        foreign = not owners or users.isdisjoint(owners)
        whose = "belong to somebody else" if foreign else "are held by processes that no command was aimed at"
        return f"The {size(others)} still in use {whose}."
    return "Nothing is left to do." if nothing_else else ""


def _unclear(incident: Incident, plan: Plan) -> str:
    short = [text for host in incident.hosts() if (text := _shortage(incident, host)) is not None]
    if short:
        return f"{' '.join(short)} No figure of the GPU is newer: who holds it now has to be looked up."
    if not incident.ledgers:
        known = " The processes below are known to be left over." if plan.kill else ""
        return (
            f"The evidence has no GPU memory figure after the last command, so nothing can be said about memory.{known}"
        )
    nobodys = _by_nobody(incident)
    entries = list(_job_entries(incident))
    dead = [entry for entry in entries if entry.kind == "dead_process" and not entry.held_by]
    if dead and dead == entries:
        pids = number_ranges([entry.life.pid for entry in dead if entry.life is not None])
        mib = size(sum(entry.mib for entry in dead))
        return f"The driver books {mib} on {pids}, which nobody can see here; what is missing stands below."
    if _lists_jobs(incident):
        besides = f"; {size(nobodys)} more are held by nobody that a list names" if nobodys >= NOTICEABLE_MIB else ""
        return (
            f"{_whoever(incident).capitalize()} hold memory, and the evidence does not show whether they are what "
            f"was to be stopped{besides}."
        )
    if nobodys >= NOTICEABLE_MIB and any(ledger.entries for ledger in incident.ledgers.values() if ledger.list_seen):
        return f"{size(nobodys)} are in use and no process list names who holds them; what is missing stands below."
    return "Memory is in use, and the evidence does not show who holds it; what is missing stands below."


def _job_entries(incident: Incident) -> Iterator[Entry]:
    """What is booked on processes, those of the machine and its desktop left out."""
    for ledger in incident.ledgers.values():
        yield from (e for e in ledger.entries if e.life is not None and not is_of_the_machine(e.life))


def _whoever(incident: Incident) -> str:
    """A list of the driver names the dead as well."""
    holders = [one for entry in _job_entries(incident) for one in (entry.held_by or (entry.life,)) if one is not None]
    return "living processes" if all(incident.alive(life) is True for life in holders) else "listed processes"


def _lists_jobs(incident: Incident) -> bool:
    return any(True for _ in _job_entries(incident))


def _by_processes(incident: Incident) -> float:
    return sum(entry.mib for entry in _job_entries(incident))


def _by_nobody(incident: Incident) -> float:
    """What the lists that were taken leave without an owner."""
    return sum(
        ledger.total("unattributed")
        for ledger in incident.ledgers.values()
        if ledger.list_seen and not _lists_without_figure(incident, ledger.figure.gpu.host)
    )


def _lists_without_figure(incident: Incident, host: str) -> bool:
    """The newest list names a process of which it does not say how much it holds, or on which GPU."""
    own = (incident.booked_now(life) for life in incident.census.lives if life.host == host)
    return any(mib is None or gpu == UNKNOWN_GPU for held in own for gpu, mib in held.items())


def _shortage(incident: Incident, host: str) -> str | None:
    """What the log of a start that failed says about other people's memory."""
    short = shortage_of(incident, host)
    if short is None:
        return None
    event = short.event
    if event.free_mib is not None and event.total_mib is not None:
        return f"A start failed because only {size(event.free_mib)} of {size(event.total_mib)} were free."
    if short.holders:
        who = ", ".join(f"{pid} ({size(mib)})" for pid, mib in list(short.holders.items())[:MAX_NAMED])
        return f"A start ran out of memory, and its message names who has the rest: PID {who}."
    if event.kind == "still_in_use" and event.mib is not None:
        return f"After a wait, {size(event.mib)} were still in use."
    return "A start ran out of memory that somebody else has."
