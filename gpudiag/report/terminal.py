"""The report for a terminal or a plain-text file: the verdict and what to type come first."""

from __future__ import annotations

from typing import Final

from gpudiag.report import causes
from gpudiag.report.contract import (
    Action,
    Family,
    Finding,
    Gpu,
    LedgerEntry,
    Report,
    ThenEntry,
)
from gpudiag.report.page import BOLD, MIN_WIDTH, Page
from gpudiag.report.text import (
    FAMILY_STATE_WORDS,
    OUTCOME_WORDS,
    RIVAL_WORDS,
    SOURCE_WORDS,
    THEN_WORDS,
    UNKNOWN,
    WHOSE_WORDS,
    by_reason,
    clip,
    common_check,
    frees,
    look_time,
    measure,
    mib,
    name,
    number,
    place,
    reasons,
    size,
    step_outcomes,
    titled,
    tried,
    tried_again,
    when,
    word,
)
from gpudiag.report.view import SHARE_WORDS, KillGroup, Share, View, shares

_MARKS: Final = dict(zip(SHARE_WORDS, "#=os?d!ur.", strict=True))
_OUTCOME_COLOURS: Final = {
    "memory_held": "\x1b[1;31m",
    "releasing": "\x1b[1;33m",
    "released": "\x1b[1;32m",
    "nothing_held": "\x1b[1;32m",
    "inconclusive": "\x1b[1;35m",
}


def render(report: Report, width: int = 80, colour: bool = False) -> str:
    """The report as text. No line is wider than ``width`` but commands that cannot be broken without harm."""
    page = Page(max(width, MIN_WIDTH), colour)
    view = View(report)
    for section in _SECTIONS:
        section(page, view)
    return page.text()


def _verdict(page: Page, view: View) -> None:
    report = view.report
    page.paint(word(OUTCOME_WORDS, report.outcome).upper(), _OUTCOME_COLOURS.get(report.outcome, BOLD))
    page.say(report.summary, 0)
    for cause in causes.causes(view.report):
        page.say(cause.told, 0, f"{cause.label}: ")
    if setting := view.setting():
        page.say(setting, 0)


def _gpus(page: Page, view: View) -> None:
    if not view.report.gpus:
        return
    page.heading("GPUs")
    used: set[str] = set()
    for gpu in view.report.gpus:
        parts = shares(gpu)
        used.update(share.key for share in parts)
        name = f" {clip(gpu.name, 60)}" if gpu.name else ""
        differs = gpu.outcome != view.report.outcome
        outcome = f"; {word(OUTCOME_WORDS, gpu.outcome).lower()}" if differs else ""
        page.say(f"{view.gpu_name(gpu.id)}{name}: {_use(gpu)}{outcome}")
        if parts:
            page.say(f"[{_bar(parts, page.width - 6)}]", 4)
    if used:
        legend = [f"{mark} {SHARE_WORDS[key]}" for key, mark in _MARKS.items() if key in used]
        page.say(", ".join(legend), 4)


def _use(gpu: Gpu) -> str:
    reserve = "" if gpu.reserved_mib is None else f", reserve {mib(gpu.reserved_mib)}"
    if gpu.total_mib is None:
        return f"used {mib(gpu.used_mib)}{reserve}"
    if gpu.used_mib is None:
        return f"used {UNKNOWN}, of {mib(gpu.total_mib)}{reserve}"
    return f"{number(gpu.used_mib)} of {mib(gpu.total_mib)} used{reserve}"


def _bar(parts: tuple[Share, ...], width: int) -> str:
    """Marks in proportion; a share that is not empty gets one mark at least."""
    whole = sum(share.mib for share in parts)
    counts = [max(1, round(share.mib / whole * width)) for share in parts]
    counts[counts.index(max(counts))] += width - sum(counts)
    return "".join(_MARKS[share.key] * count for share, count in zip(parts, counts, strict=True))


def _plan(page: Page, view: View) -> None:
    plan = view.report.plan
    page.heading("What to do")
    if plan.stop_first:
        page.say("First stop what keeps it or would start it again:")
        for stop in plan.stop_first:
            where = view.stop_place(stop)
            page.say(f"{word({}, stop.kind)} {stop.id}{f' ({where})' if where else ''}", 4)
            page.to_paste(stop.command)
    page.say(view.kill_line())
    groups = view.kill_groups()
    for group in groups:
        _commands(page, view, group)
    if plan.keep:
        page.say("Do not kill:")
    page.rows(plan.keep, lambda keep: page.say(f"{keep.name or UNKNOWN}: {keep.because}", 4, f"{keep.pid} "), "process")
    if plan.then:
        page.say("Then:" if plan.kill or plan.stop_first else "Next:")
    for then in plan.then:
        _then(page, then)
    if groups:
        page.say("The processes to kill, in order:")
    for group in groups:
        _reasons(page, group)


def _commands(page: Page, view: View, group: KillGroup) -> None:
    where = view.place(group.host, group.run_in)
    page.say(f"Paste{f' {where}' if where else ''}:")
    for command in group.commands:
        page.to_paste(command)
    if check := common_check(group.entries):
        page.say(f"For all {len(group.entries)}: {check}.")


def _reasons(page: Page, group: KillGroup) -> None:
    """Each process on a line, then what is the same for several of them."""
    check = common_check(group.entries)
    for entry in group.entries:
        page.say(f"{clip(name(entry), 80)}, {entry.signal}, {frees(entry)}", 4, f"{entry.order}. {entry.pid}  ")
    for pids, start in by_reason((entry.pid, when(entry.start_time)) for entry in group.entries if entry.start_time):
        page.say(f"started {start}", 4, f"{pids}: ")
    for pids, reason in reasons(group.entries, check):
        page.say(reason, 4, f"{pids}: ")


def _then(page: Page, then: ThenEntry) -> None:
    kind = word(THEN_WORDS, then.kind)
    page.say(f"{kind}: {then.because}" if then.because else kind, 4)
    if then.command:
        page.to_paste(then.command)


def _actions(page: Page, view: View) -> None:
    if not view.report.actions:
        return
    page.heading("What happened")
    page.rows(view.report.actions, lambda action: _action(page, view, action), "action")


def _action(page: Page, view: View, action: Action) -> None:
    code = "" if action.exit_code is None else f", exit code {action.exit_code}"
    source = word(SOURCE_WORDS, action.source)
    page.say(f"{when(action.time, action.time_error_s)}. {source}{code}.", first=f"{action.id}  ")
    page.command(action.text)
    for step, outcome in zip(action.steps, step_outcomes(action.steps), strict=True):
        host = view.host_name(step.runs_on)
        signal = f"signal {step.signal}" if step.signal else ""
        about = ", ".join(part for part in (signal, f"on {host}" if host else "") if part)
        page.say(f"{step.text}{f'  ({about})' if about else ''}", 4, f"{step.id}  ")
        page.say(outcome, 10)


def _ledger(page: Page, view: View) -> None:
    gpus = [gpu for gpu in view.report.gpus if gpu.ledger]
    if not gpus:
        return
    page.heading("Who holds it")
    for gpu in gpus:
        page.say(f"{view.gpu_name(gpu.id)}, baseline {mib(gpu.baseline_mib)}:")
        page.rows(gpu.ledger, lambda entry: page.say(_ledger_entry(view, entry), 4), "holder")
        for pids, reason in by_reason((entry.pid, entry.because) for entry in gpu.ledger if entry.pid is not None):
            page.say(reason, 4, f"{pids}: ")


def _ledger_entry(view: View, entry: LedgerEntry) -> str:
    pid = "" if entry.pid is None else f"PID {entry.pid} "
    name = f"{clip(entry.name, 80)} " if entry.name else ""
    whose = f", {word(WHOSE_WORDS, entry.whose)}" if entry.kind in ("process", "dead_process") else ""
    because = f": {entry.because}" if entry.because and entry.pid is None else ""
    return f"{size(entry.mib)}  {pid}{name}({view.held_by(entry)}{whose}){because}"


def _families(page: Page, view: View) -> None:
    if not view.report.families:
        return
    page.heading("Servers and their processes")
    for family in view.report.families:
        _family(page, view, family)


def _family(page: Page, view: View, family: Family) -> None:
    title = f"{family.engine or 'engine not known'}, {word(FAMILY_STATE_WORDS, family.state)}"
    page.say(title, 2, f"{family.id}  ")
    page.say(view.about(family), 4)

    def draw(row: tuple[int, str]) -> None:
        page.say(row[1], 4 + 2 * row[0])

    rows = [(member.depth, _member(view, member.process.id)) for member in view.members(family)]
    page.rows(rows, draw, "process")
    page.rows(view.fates(family), lambda row: page.say(row[1], 4, f"{row[0]}: "), "reason")


def _member(view: View, process_id: str) -> str:
    process = view.processes[process_id]
    return f"{process.pid} {clip(process.name or f'name {UNKNOWN}', 80)}: {view.process_facts(process)}"


def _findings(page: Page, view: View) -> None:
    if not view.report.findings:
        return
    page.heading("Why")
    page.rows(view.report.findings, lambda finding: _finding(page, view, finding), "finding")


def _finding(page: Page, view: View, finding: Finding) -> None:
    explains = () if finding.explains_mib is None else (f"explains {mib(finding.explains_mib)}",)
    about = ", ".join((*causes.standing(finding), *explains))
    page.say(f"{finding.title}{f' ({about})' if about else ''}", first=f"{finding.rule}  ")
    page.say(finding.text, 4)
    if finding.measures:
        page.say(", ".join(measure(key, value) for key, value in finding.measures.items()), 4, "Measured: ")
    for evidence in causes.quotes(finding):
        page.say(f"{place(view.report, evidence)}: {clip(evidence.quote)}", 4, "Evidence: ")
    for rival in finding.rivals:
        because = f": {rival.because}" if rival.because else ""
        page.say(f"{titled(rival.rule, rival.title)} is {word(RIVAL_WORDS, rival.status)}{because}", 4, "Or else:  ")
    if finding.settled_by:
        page.say(finding.settled_by, 4, "What would settle it: ")


def _unknown(page: Page, view: View) -> None:
    if not view.report.unknown:
        return
    page.heading("What is not known")
    for ask in causes.asks(view.report):
        page.say(ask.words)
        for rule in ask.rules:
            page.say(titled(rule.rule, rule.title), 4)
        page.say("To find out:")
        page.to_paste(ask.collect)


def _next_time(page: Page, view: View) -> None:
    following = view.report.plan.next_time
    without = view.report.plan.no_next_time
    if following is None and without is None:
        return
    page.heading("Next time")
    if following is None:
        page.say(f"No command is proposed: {without}.")
        return
    page.to_paste(following.command, 4)
    page.say(tried(following))
    if following.again is not None:
        page.to_paste(following.again, 4)
        page.say(tried_again(following))


def _sources(page: Page, view: View) -> None:
    report = view.report
    page.heading("Machine and evidence")
    for host in report.hosts:
        driver = f"driver {host.driver_version or UNKNOWN}, CUDA {host.cuda_version or UNKNOWN}"
        root = {True: "seen as root", False: "not seen as root", None: "rights not known"}[host.privileged]
        space = f"PID namespace {word({}, host.pid_namespace)}"
        page.say(f"Host {host.name or UNKNOWN}: {driver}; {root}; {space}")
    for look in report.looks:
        page.say(look_time(look), first=f"Look {look.id}: ")
    for ref in report.inputs:
        page.say(
            f"{ref.path} ({word({}, ref.kind)}, {'complete' if ref.complete else 'not complete'})", 2, f"{ref.id}: "
        )
    if read := view.read_sources():
        page.say(read, first="Read: ")
    page.rows(
        view.evidence_gaps(),
        lambda gap: page.say(f"{gap.what}: {gap.how}{f', {gap.because}' if gap.because else ''}", 2, "Not read: "),
        "gap",
    )
    page.say(f"{report.tool.name} {report.tool.version}, rules {report.tool.rules_digest}")


_SECTIONS: Final = (
    _verdict,
    _gpus,
    _plan,
    _actions,
    _ledger,
    _families,
    _findings,
    _unknown,
    _next_time,
    _sources,
)
