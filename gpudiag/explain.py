"""One call from paths to a report: read, parse, join, judge, plan, assemble."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from gpudiag.assemble import assemble
from gpudiag.evidence import read_input, standard_input
from gpudiag.evidence.exhibit import Input, Unreadable
from gpudiag.model import Citation, KillAction
from gpudiag.parse import parse
from gpudiag.parse.hosts import separate_hosts
from gpudiag.parse.parsed import Parsed
from gpudiag.plan import make_plan
from gpudiag.report.contract import Plan, Report
from gpudiag.report.privacy import without_secrets
from gpudiag.rules.book import Book
from gpudiag.rules.engine import RuleResult, evaluate, evaluate_all
from gpudiag.rules.engines import load_engines
from gpudiag.rules.loader import load_rules, rules_digest
from gpudiag.rules.schema import Rule
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.facts.tables import build_tables, gap_table
from gpudiag.timeline.incident import Incident, build_incident
from gpudiag.timeline.order import SECOND
from gpudiag.verdict import NOTHING, RELEASED, RELEASING, Verdict, explains_held, judge

EVIDENCE_RULE = "GPD901"
UNLISTED = frozenset({"GPD301", "GPD502", "GPD504"})
"""Rules that tell why memory is in use, or cannot be read, also where no source says how much."""


@dataclass(frozen=True)
class StatedKill:
    """A kill command that the person states because the evidence lacks it."""

    command: str
    at: str | None
    """RFC 3339; without a zone it is UTC. ``None`` = before the newest look."""


@dataclass(frozen=True)
class Pack:
    """Rules from outside that are asked besides the shipped ones."""

    rules: tuple[Rule, ...] = ()
    directory: Path | None = None
    """Where they lie, for the digest of the report."""


@dataclass(frozen=True)
class Explanation:
    """A report and what it was made from."""

    report: Report
    incident: Incident
    verdict: Verdict
    plan: Plan
    facts: dict[str, list[Row]]


def explain(paths: Sequence[Path], stated: Sequence[StatedKill] = (), pack: Pack | None = None) -> Report:
    """The report on one incident; raises ``Unreadable`` with one sentence if an input cannot be used."""
    return explain_fully(paths, stated, pack).report


def explain_fully(paths: Sequence[Path], stated: Sequence[StatedKill] = (), pack: Pack | None = None) -> Explanation:
    """As ``explain``, with the stages' own results."""
    inputs, parsed = read_evidence(paths)
    return explain_parsed(inputs, with_stated(parsed, stated), pack)


def read_evidence(paths: Sequence[Path]) -> tuple[list[Input], Parsed]:
    """The inputs and their rows; raises ``Unreadable`` with one sentence if they cannot be used or say nothing.

    ``-`` is standard input, once.
    """
    with ExitStack() as stack:
        inputs = [_read(path, f"I{n}", stack) for n, path in enumerate(paths, 1)]
        parsed = separate_hosts(parse(inputs))
    if not _holds_evidence(parsed):
        named = ", ".join(item.path for item in inputs)
        raise Unreadable(
            f"{named}: nothing in it is output of a tool that gpudiag knows (see README, what to collect)."
        )
    return inputs, parsed


def _read(path: Path, input_id: str, stack: ExitStack) -> Input:
    if path != standard_input.SIGN:
        return read_input(path, input_id)
    return standard_input.named(read_input(stack.enter_context(standard_input.spooled()), input_id))


def _holds_evidence(parsed: Parsed) -> bool:
    """Any row at all besides notes on what could not be used."""
    notes = {"looks", "coverage", "damage"}
    rows = any(getattr(parsed, field.name) for field in fields(parsed) if field.name not in notes)
    return rows or any(item.outcome in ("ok", "denied", "timed_out") for item in parsed.coverage)


def explain_parsed(inputs: Sequence[Input], parsed: Parsed, pack: Pack | None = None) -> Explanation:
    """Judge rows that are already parsed."""
    incident = build_incident(parsed, Book(load_engines()))
    tables = build_tables(incident)
    facts: dict[str, list[Row]] = {name: [*table.to_dicts()] for name, table in tables.items()}
    pack = pack or Pack()
    rules = (*load_rules(), *pack.rules)
    results = evaluate_all([rule for rule in rules if rule.id != EVIDENCE_RULE], tables)
    verdict = judge(incident, results, facts["holder"])
    evidence_rule = next(rule for rule in rules if rule.id == EVIDENCE_RULE)
    gaps = evaluate(evidence_rule, gap_table(incident, _cause_found(verdict, results)))
    verdict = judge(incident, (*results, gaps), facts["holder"])
    plan = make_plan(incident, verdict, facts)
    report = without_secrets(assemble(incident, inputs, verdict, plan, facts, rules_digest(pack=pack.directory)))
    return Explanation(report, incident, verdict, plan, facts)


def _cause_found(verdict: Verdict, results: Sequence[RuleResult]) -> bool:
    """A rule that explains held memory fired, or one that says why its owner cannot be seen."""
    matches = [match for result in results for match in result.matches]
    found = any(explains_held(match) or match.rule_id[3] == "4" or match.rule_id in UNLISTED for match in matches)
    return found or verdict.outcome in (RELEASED, NOTHING, RELEASING)


def with_stated(parsed: Parsed, stated: Sequence[StatedKill]) -> Parsed:
    """Add the commands that the person states."""
    if not stated:
        return parsed
    host = parsed.looks[0].host if parsed.looks else ""
    # A recorder is started after the clean-up failed; looks that a person saved may have been taken before it.
    before_last = parsed.looks[-2].id if len(parsed.looks) > 1 and not parsed.recorders else None
    added = tuple(_stated_action(kill, host, before_last) for kill in stated)
    return replace(parsed, actions=(*parsed.actions, *added))


def _error_ns(at: str) -> int:
    """A time that is stated to the second was read off a clock; one to the minute may be off by that."""
    return (2 if re.search(r"\d:\d\d:\d\d", at) else 60) * SECOND


def _stated_action(kill: StatedKill, host: str, after_look: str | None) -> KillAction:
    time_ns = None
    if kill.at is not None:
        moment = datetime.fromisoformat(kill.at)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        time_ns = int(moment.timestamp() * SECOND)
    return KillAction(
        host=host,
        text=kill.command,
        argv=None,
        how="stated",
        time_ns=time_ns,
        end_ns=time_ns,
        time_error_ns=_error_ns(kill.at) if kill.at is not None else 0,
        after_look=after_look,
        user=None,
        exit_code=None,
        output=None,
        script_text=None,
        source="stated",
        cited=Citation(input="stated", member="--kill", line=None, quote=kill.command[:300]),
    )
