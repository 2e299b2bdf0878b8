"""Puts the public report together: every statement in it comes from here, and every output is drawn from it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import datetime

from gpudiag import __version__
from gpudiag.evidence.exhibit import Input
from gpudiag.model import Citation
from gpudiag.plan import rfc3339
from gpudiag.report import contract as c
from gpudiag.rules.engine import Match, RuleResult
from gpudiag.rules.rivals import judge_rivals
from gpudiag.rules.schema import Rule
from gpudiag.shell.missing import NOT_FOUND
from gpudiag.shell.signals import KILL
from gpudiag.summary import summarise
from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.facts.holder import alive_root
from gpudiag.timeline.facts.reach import signal_name
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.families import Family
from gpudiag.timeline.incident import Incident, is_undated
from gpudiag.timeline.ledger import Entry
from gpudiag.timeline.lives import Life
from gpudiag.timeline.order import SECOND, clock_of
from gpudiag.timeline.orphans import is_orphan
from gpudiag.timeline.trace_words import told
from gpudiag.verdict import HELD, OWN_STOP_RULES, UNCLEAR, Verdict, is_leaving, judgement_order

MAX_UNKNOWN = 5
MAX_SAMPLES_PER_GPU = 2_000
MAX_EVENTS = 500
MAX_LOGGED = 250
"""Log and kernel lines among the events: the last ones, which are about the incident."""
UNTOLD = ("role", "loading")
"""Kinds of log lines that are no events of an incident."""
KERNEL_CLOCK_ERROR_NS = SECOND
"""printk's clock runs beside the boot clock and is not corrected."""
MAX_EVIDENCE = 12
ZONE_ERROR_S = 14 * 3600.0
"""The farthest that a clock without a zone can be from UTC."""


def assemble(
    incident: Incident,
    inputs: Sequence[Input],
    verdict: Verdict,
    plan: c.Plan,
    facts: dict[str, list[Row]],
    digest: str,
) -> c.Report:
    """The whole report."""
    findings = tuple(_findings(incident, verdict))
    actions = tuple(_action(incident, action, facts["reach"], facts["carrier"]) for action in incident.actions)
    return c.Report(
        tool=c.Tool(name="gpudiag", version=__version__, rules_digest=digest),
        inputs=tuple(_input(item, incident) for item in inputs),
        hosts=tuple(_host(incident, host) for host in incident.hosts()),
        looks=tuple(_look(incident, n) for n in range(len(incident.looks))),
        sources=(*_sources(incident), *_unread_commands(incident), *_undated(incident)),
        outcome=verdict.outcome,
        summary=summarise(incident, verdict, plan, actions),
        gpus=tuple(_gpu(incident, verdict, gpu.id) for gpu in incident.gpus.gpus),
        families=tuple(_family(incident, verdict, family, facts["holder"]) for family in incident.families),
        processes=tuple(_processes(incident, facts["reach"])),
        actions=actions,
        findings=findings,
        unknown=tuple(_unknown(verdict)),
        plan=plan,
        samples=tuple(_samples(incident)),
        events=tuple(_events(incident)),
    )


def _input(item: Input, incident: Incident) -> c.InputRef:
    damage = [d for d in (*item.damage, *incident.parsed.damage) if d.input == item.id]
    unique = dict.fromkeys((d.member, d.line, d.reason) for d in damage)
    return c.InputRef(
        id=item.id,
        path=item.path,
        kind=item.kind,
        complete=item.complete and not damage,
        damage=tuple(c.DamageRef(member=member, line=line, reason=reason) for member, line, reason in unique),
    )


def _host(incident: Incident, host: str) -> c.Host:
    facts = {fact.name: fact.value for fact in incident.parsed.facts if fact.at.host == host}
    look = incident.newest(host)
    view = incident.views[look.id] if look is not None else None
    namespace = "unknown"
    if view is not None and view.own_namespace is not None:
        namespace = "container" if view.own_namespace else "host"
    if incident.container_of(host) is not None:
        namespace = "container"
    return c.Host(
        id=incident.host_id(host),
        name=host,
        boot_id=incident.boot_id(host),
        driver_version=facts.get("driver_version"),
        cuda_version=facts.get("cuda_version"),
        privileged=None if view is None or view.user is None else view.user == "root",
        pid_namespace=namespace,
    )


def _look(incident: Incident, number: int) -> c.LookRef:
    look = incident.looks[number]
    time, error = rfc3339(look.start_ns), 0.001
    if time is None:
        shown = (f.value for f in incident.parsed.facts if f.at.look == look.id and f.name == "shown_time")
        time, error = next((clock for text in shown if (clock := _wall_clock(text)) is not None), None), ZONE_ERROR_S
    return c.LookRef(
        id=f"L{number + 1}",
        host=incident.host_id(look.host),
        time=time,
        time_error_s=error if time is not None else None,
        recalled=look.recalled,
    )


def _wall_clock(text: str) -> str | None:
    """nvidia-smi's own clock line. It names no zone, so the time is off by up to fourteen hours."""
    try:
        return datetime.strptime(" ".join(text.split()), "%a %b %d %H:%M:%S %Y").strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None


def _look_id(incident: Incident, look: str | None) -> str | None:
    return next((f"L{n + 1}" for n, item in enumerate(incident.looks) if item.id == look), None)


def _sources(incident: Incident) -> Iterator[c.SourceRef]:
    seen: set[tuple[str, str | None, str, str, str | None]] = set()
    for row in incident.parsed.coverage:
        member = row.cited.input if row.cited is not None else "I1"
        key = (member, _look_id(incident, row.at.look), row.source, row.outcome, row.because)
        if key not in seen:
            seen.add(key)
            yield c.SourceRef(input=key[0], look=key[1], source=key[2], outcome=key[3], because=key[4])


def _unread_commands(incident: Incident) -> Iterator[c.SourceRef]:
    """Parts of a command that the shell stage did not read, each with the reason."""
    for action in incident.actions:
        for note in action.replay.line.not_understood:
            member = action.action.cited.input
            yield c.SourceRef(
                input=member,
                look=None,
                source="kill commands",
                outcome="not_understood",
                because=f"{action.id}: {note}",
            )


def _undated(incident: Incident) -> Iterator[c.SourceRef]:
    undated = [action for action in incident.parsed.actions if is_undated(action)]
    for member in dict.fromkeys(action.cited.input for action in undated):
        count = sum(action.cited.input == member for action in undated)
        yield c.SourceRef(
            input=member,
            look=None,
            source="kill commands",
            outcome="ok",
            because=f"{count} of the commands found carry no time and are not judged; state yours with --kill",
        )


def _gpu(incident: Incident, verdict: Verdict, gpu_id: str) -> c.Gpu:
    gpu = incident.gpus.get(gpu_id)
    ledger = incident.ledgers.get(gpu_id)
    return c.Gpu(
        id=gpu.id,
        host=incident.host_id(gpu.host),
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        total_mib=mib(gpu.total_mib),
        used_mib=mib(ledger.figure.used_mib) if ledger is not None and ledger.figure.whole else None,
        reserved_mib=mib(gpu.reserved_mib),
        baseline_mib=None,
        outcome=verdict.gpu_outcomes[gpu_id],
        ledger=tuple(_ledger_entry(incident, verdict, e) for e in ledger.entries) if ledger is not None else (),
    )


def mib(value: float | None) -> float | None:
    """A size as the report writes it: a tenth of a MiB is as fine as the tools print."""
    return None if value is None else round(value, 1)


def _ledger_entry(incident: Incident, verdict: Verdict, entry: Entry) -> c.LedgerEntry:
    life = entry.life
    return c.LedgerEntry(
        kind=entry.kind,
        whose=_whose(incident, verdict, life)
        if life is not None
        else ("system" if entry.kind == "driver" else "unknown"),
        process=incident.process_id(life) if life is not None else None,
        pid=life.pid if life is not None else None,
        name=life.title if life is not None else None,
        mib=mib(entry.mib),
        held_by=tuple(p for heir in entry.held_by if (p := incident.process_id(heir)) is not None),
        because=entry.because,
    )


def _whose(incident: Incident, verdict: Verdict, life: Life) -> str:
    family = incident.family_of(life)
    if family is None:
        return "unknown"
    if family.id in incident.aims.targets:
        return "family"
    if life.key in verdict.scope:
        return "older_family" if incident.aims.targets else "family"
    owners = {f.user for f in incident.families if f.id in incident.aims.targets} - {None}
    if owners and family.user is not None and family.user not in owners:
        return "other_tenant"
    return "unknown"


def _family(incident: Incident, verdict: Verdict, family: Family, holders: Sequence[Row]) -> c.Family:
    holds: dict[str, float | None] = {}
    for life in family.members:
        for gpu, figure in incident.booked_now(life).items():
            if figure is not None:
                holds[gpu] = (holds.get(gpu) or 0.0) + figure
            else:
                holds.setdefault(gpu, None)
    return c.Family(
        id=family.id,
        host=incident.host_id(family.host),
        engine=family.engine,
        root_pid=family.root_pid,
        state=_state(incident, family, [row for row in holders if row["family"] == family.id]),
        members=tuple(p for life in family.members if (p := incident.process_id(life)) is not None),
        holds_mib={gpu: mib(figure) for gpu, figure in holds.items()},
        outcome=verdict.family_outcomes[family.id],
        primary=verdict.family_primary.get(family.id),
    )


def _state(incident: Incident, family: Family, rows: Sequence[Row]) -> str:
    living = [life for life in family.members if incident.alive(life) is not False]
    if any(row["in_kernel"] is True and not row["zombie"] for row in rows):
        return "stuck"
    if any(is_leaving(row) and row["listed"] for row in rows):
        return "leaving"
    if not living:
        return "gone"
    if any(is_orphan(incident, family, life) for life in living):
        return "orphaned"
    return "running" if alive_root(incident, family) is not False else "orphaned"


def _processes(incident: Incident, reach: Sequence[Row]) -> Iterator[c.ProcessRef]:
    by_process: dict[str, list[Row]] = {}
    for row in reach:
        by_process.setdefault(str(row["process"]), []).append(row)
    for life in incident.census.lives:
        process = incident.process_id(life)
        if process is not None:
            yield _process(incident, life, process, by_process.get(process, []))


def _process(incident: Incident, life: Life, process: str, reach: Sequence[Row]) -> c.ProcessRef:
    family = incident.family_of(life)
    seen = list(life.sightings.values())[-1] if life.sightings else None
    ppid = seen.first("ppid") if seen is not None else None
    parent = incident.kinship.parent(life)
    look = incident.newest(life.host)
    state = seen.first("state") if seen is not None and seen.look is look else None
    return c.ProcessRef(
        id=process,
        host=incident.host_id(life.host),
        pid=life.pid,
        start_time=rfc3339(life.start_ns),
        start_ticks=life.start_ticks,
        user=life.string("user"),
        state=state if isinstance(state, str) else None,
        name=life.title,
        cmdline=life.cmdline,
        role=family.role(life) if family is not None else None,
        family=family.id if family is not None else None,
        parent_pid=ppid if isinstance(ppid, int) else life.born_ppid,
        parent_alive=incident.alive(parent) if parent is not None else None,
        last_seen=_look_id(incident, seen.look.id) if seen is not None else None,
        holds_mib={gpu: mib(figure) for gpu, figure in incident.booked_now(life).items()},
        fate=tuple(_fate(row) for row in reach if row["meant"] is not False or row["selected"]),
    )


def _fate(row: Row) -> c.Fate:
    delivered = row["delivered"]
    reached = "unknown" if delivered is None else ("yes" if delivered else "no")
    certainty = "proven" if row["delivered_proven"] else "inferred"
    return c.Fate(step=str(row["step"]), reached=reached, certainty=certainty, because=_fate_reason(row))


def _fate_reason(row: Row) -> str:
    tool, signal = row["tool"], row["signal"]
    if row["ran"] is False:
        return "the step never ran"
    if row["delivered"] is True:
        return f"{signal} reached it"
    if row["permitted"] is False:
        return f"{tool} was not permitted to signal it"
    if row["selected"] is False and row["blind"] is True:
        return f"{tool} could not see what it has open, as the user who ran it"
    if row["selected"] is False and tool == "fuser":
        return f"fuser did not find {row['pattern'] or 'the device'} open in it"
    if row["selected"] is False and row["pattern"] is not None:
        return f"the pattern {row['pattern']} does not match {row['matched_against'] or row['name']}"
    if row["selected"] is False:
        return f"{tool} did not select it"
    return "the evidence does not tell"


def _action(incident: Incident, action: ActionView, reach: Sequence[Row], carriers: Sequence[Row]) -> c.Action:
    return c.Action(
        id=action.id,
        time=rfc3339(action.action.time_ns),
        time_error_s=action.action.time_error_ns / SECOND if action.action.time_ns is not None else None,
        text=action.action.text,
        source=action.action.source,
        exit_code=action.action.exit_code,
        steps=tuple(_step(incident, action, step, reach, carriers) for step in action.steps if not step.elsewhere),
    )


def _came_later(step: StepView, row: Row) -> bool:
    """SIGKILL would have ended it, it lives, and nothing shows that it was there: a grep that looks for others, say."""
    return step.replay.signal == KILL and row["alive_now"] is True and row["alive_then"] is not True


def _step(
    incident: Incident, action: ActionView, step: StepView, reach: Sequence[Row], carriers: Sequence[Row]
) -> c.ActionStep:
    rows = [row for row in reach if row["step"] == step.id and row["pid"] is not None]
    chosen = [r for r in rows if r["selected"] and r["permitted"] is not False and r["ran"] is not False]
    hit = sorted({_pid(r) for r in chosen if not _came_later(step, r)})
    known = [r for r in carriers if r["step"] == step.id and not r["assumed"]]
    shells = [r for r in known if r["matches"] and not r["execs"] and r["death_seen"] is not False]
    selection = step.replay.selection
    return c.ActionStep(
        id=step.id,
        text=step.replay.step.text,
        tool=step.replay.tool,
        signal=signal_name(step.replay.signal),
        runs_on=incident.host_id(action.host),
        ran={True: "yes", False: "no", None: "unknown"}[step.replay.ran],
        because=step.replay.ran_because,
        hit=tuple(hit),
        missed=tuple(sorted({_pid(r) for r in rows if _missed(r)})),
        collateral=tuple(sorted({_pid(r) for r in rows if _pid(r) in hit and r["other_family"] is True})),
        hit_shells=tuple(dict.fromkeys(str(row["shell"]) for row in shells)),
        not_permitted=tuple(sorted({_pid(r) for r in rows if r["permitted"] is False and r["selected"]})),
        error=selection.error if selection is not None else None,
        exit_code=_exit_code(step),
    )


def _exit_code(step: StepView) -> int | None:
    """What was printed; a shell's own code where it did not find the program."""
    shell_failed = step.replay.ran is False and step.replay.exit_code == NOT_FOUND
    return NOT_FOUND if step.printed_status is None and shell_failed else step.printed_status


def _missed(row: Row) -> bool:
    """Meant for it, and it was there, and it was not hit."""
    if not row["meant"] or row["alive_then"] is False:
        return False
    by_device = row["tool"] == "fuser" or row["list_from"] == "nvidia-smi"
    if by_device and row["device_open_then"] is not True and not row["holds_mib"] and not row["listed"]:
        return False
    return row["selected"] is False or row["ran"] is False or row["permitted"] is False


def _pid(row: Row) -> int:
    return int(str(row["pid"]))


def _findings(incident: Incident, verdict: Verdict) -> Iterator[c.Finding]:
    by_id = {result.rule.id: result for result in verdict.results}
    for n, match in enumerate(verdict.findings):
        rule = by_id[match.rule_id].rule
        yield c.Finding(
            rule=match.rule_id,
            title=rule.title,
            certainty=match.certainty,
            primary=n == 0,
            families=match.families,
            gpus=match.gpus,
            processes=match.processes,
            pids=match.pids,
            steps=match.steps,
            explains_mib=mib(match.explains_mib),
            measures={name: round(value, 2) for name, value in match.measures.items()},
            text=match.text,
            evidence=tuple(_evidence(incident.citations.items[n]) for n in match.cites[:MAX_EVIDENCE]),
            rivals=tuple(
                c.Rival(
                    rule=rival.rule,
                    title=by_id[rival.rule].rule.title if rival.rule in by_id else None,
                    status=rival.status,
                    because=rival.because,
                )
                for rival in judge_rivals(rule, match, by_id)
            ),
            settled_by=_settled_by(rule, match),
        )


def _settled_by(rule: Rule, match: Match) -> str | None:
    return None if match.certainty == "proven" else rule.settled_by


def _evidence(cited: Citation) -> c.Evidence:
    return c.Evidence(input=cited.input, member=cited.member, line=cited.line, quote=cited.quote)


def _unknown(verdict: Verdict) -> Iterator[c.UnknownRule]:
    """Rules that could still change the answer: those that would come before the primary cause, or explain more."""
    best = judgement_order(verdict.primary) if verdict.primary is not None else (99, "")
    settled = verdict.findings and verdict.findings[0].certainty == "proven"
    open_rules = [r for r in verdict.results if r.answer == "unknown" and r.rule.missing]
    open_rules = [result for result in open_rules if result.signs or _may_matter(verdict, result)]
    # What nothing speaks for is merely untested: it must not take the place of a rule with a sign.
    ordered = sorted(open_rules, key=_worth_testing)
    could = [r for r in ordered if not settled or judgement_order(r.rule.id) < best]
    for result in could[:MAX_UNKNOWN]:
        missing = _missing(result)
        if missing:
            sources = tuple(dict.fromkeys(source for source, _ in missing))
            yield c.UnknownRule(rule=result.rule.id, title=result.rule.title, missing=sources, collect=missing[0][1])


def _worth_testing(result: RuleResult) -> tuple[bool, bool, tuple[int, str]]:
    """Signs first; who keeps a process alive on purpose is asked last where nothing speaks for it."""
    return (
        result.signs == 0,
        result.signs == 0 and result.rule.id in OWN_STOP_RULES,
        judgement_order(result.rule.id),
    )


def _may_matter(verdict: Verdict, result: RuleResult) -> bool:
    """An untested rule is named where no cause is sure, and where it would compete with the one that is."""
    if verdict.outcome not in (HELD, UNCLEAR):
        return False
    first = verdict.findings[0] if verdict.findings else None
    if first is None or first.certainty == "possible" or first.rule_id[3] in "69":
        return True
    primary = next(other.rule for other in verdict.results if other.rule.id == first.rule_id)
    return any(rival.rule == result.rule.id for rival in primary.rivals)


def _missing(result: RuleResult) -> list[tuple[str, str]]:
    found = [result.rule.missing[name] for name in result.unknown_columns if name in result.rule.missing]
    return [(item.source, item.collect) for item in found]


def _samples(incident: Incident) -> Iterator[c.Sample]:
    for gpu in incident.gpus.gpus:
        curve = incident.memory.curve()
        own = [(t, used) for g, t, used, _ in curve.iter_rows() if g == gpu.id]
        for time_ns, used in _thinned(own):
            time = rfc3339(time_ns)
            if time is not None:
                yield c.Sample(gpu=gpu.id, time=time, used_mib=mib(used))


def _thinned(points: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """Every change is kept up to the limit; beyond it, evenly spaced points with the first and the last."""
    if len(points) <= MAX_SAMPLES_PER_GPU:
        return points
    step = len(points) / MAX_SAMPLES_PER_GPU
    return [points[int(n * step)] for n in range(MAX_SAMPLES_PER_GPU - 1)] + [points[-1]]


def _events(incident: Incident) -> Iterator[c.Event]:
    logged = [*_log_events(incident), *_kernel_events(incident), *_endings(incident)]
    yield from logged[-MAX_LOGGED:]
    yield from itertools.islice(_trace_events(incident), MAX_EVENTS - min(len(logged), MAX_LOGGED))


def _log_events(incident: Incident) -> Iterator[c.Event]:
    """What servers said about starts, ends and memory, in the order of their files."""
    for event in incident.parsed.log_events:
        if event.kind in UNTOLD:
            continue
        who = event.role if event.pid is None else f"{event.role or 'process'} {event.pid}"
        lives = incident.census.named(event.host, event.pid) if event.pid is not None else []
        yield c.Event(
            time=rfc3339(event.time_ns),
            time_error_s=event.time_error_ns / SECOND if event.time_ns is not None else None,
            kind="log",
            process=incident.process_id(lives[-1]) if lives else None,
            text=f"{event.kind.replace('_', ' ')}{f' ({who})' if who else ''}: {event.text}",
            evidence=_evidence(event.cited),
        )


def _kernel_events(incident: Incident) -> Iterator[c.Event]:
    """Kernel messages. Their own clock is tied to wall time where there is one host and the evidence ties it."""
    clock = clock_of(incident.parsed.clocks, incident.parsed.processes) if len(incident.hosts()) == 1 else None
    for event in incident.parsed.kernel_events:
        time_ns, error_ns = event.time_ns, event.time_error_ns
        if event.boot_s is not None and clock is not None:
            time_ns, error_ns = clock.at(event.boot_s), clock.error_ns + KERNEL_CLOCK_ERROR_NS
        lives = incident.census.named(event.host, event.pid) if event.pid is not None else []
        yield c.Event(
            time=rfc3339(time_ns),
            time_error_s=error_ns / SECOND if time_ns is not None else None,
            kind="kernel",
            process=incident.process_id(lives[-1]) if lives else None,
            text=event.text,
            evidence=_evidence(event.cited),
        )


def _endings(incident: Incident) -> Iterator[c.Event]:
    """Ends of processes of interest that a flight recorder saw."""
    for ending in incident.parsed.endings:
        lives = [
            life for life in incident.census.named(ending.host, ending.pid) if ending.start_ticks == life.start_ticks
        ]
        process = incident.process_id(lives[-1]) if lives else None
        if process is None:
            continue
        how = f"was ended by {signal_name(ending.signal)}" if ending.signal is not None else "ended"
        how += f" with exit code {ending.exit_code}" if ending.exit_code is not None else ""
        yield c.Event(
            time=rfc3339(ending.time_ns),
            time_error_s=ending.time_error_ns / SECOND,
            kind="exit",
            process=process,
            text=f"{lives[-1].title or 'process'} ({ending.pid}) {how}",
            evidence=_evidence(ending.cited),
        )


def _trace_events(incident: Incident) -> Iterator[c.Event]:
    for host, trace in incident.traces.items():
        observers = frozenset(pid for view in incident.views.values() for pid in view.observers)
        events = told(trace, host, incident.actions, incident.census, observers)
        for item in itertools.islice(events, MAX_EVENTS):
            lives = incident.census.named(host, item.pid)
            yield c.Event(
                time=rfc3339(trace.wall_ns(item.event)),
                kind=item.kind,
                process=incident.process_id(lives[-1]) if lives else None,
                text=item.text,
                evidence=_evidence(item.event.cited),
            )
