"""Wording that all outputs share: numbers, PIDs, times, and the words for the contract's values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from gpudiag.ranges import number_ranges
from gpudiag.report.contract import ActionStep, Evidence, Fate, KillEntry, LookRef, NextTime, Report

UNKNOWN: Final = "not known"

OUTCOME_WORDS: Final = {
    "memory_held": "Memory is still held",
    "releasing": "Memory is being released",
    "released": "Memory was released",
    "nothing_held": "Nothing is held",
    "inconclusive": "Cannot be told from this evidence",
}
WHOSE_WORDS: Final = {
    "family": "this server",
    "older_family": "an older server of the same owner",
    "other_tenant": "another tenant",
    "system": "the system",
    "unknown": "owner not known",
}
LEDGER_KIND_WORDS: Final = {
    "process": "live process",
    "dead_process": "dead process",
    "driver": "the driver",
    "unattributed": "nobody named",
}
REACHED_WORDS: Final = {"yes": "reached", "no": "not reached", "unknown": "not known whether reached"}
RAN_WORDS: Final = {"yes": "Ran", "no": "Did not run", "unknown": "Not known whether it ran"}
STATE_WORDS: Final = {
    "R": "running",
    "S": "sleeping",
    "D": "uninterruptible",
    "T": "stopped",
    "t": "traced",
    "Z": "zombie",
    "X": "dead",
    "I": "idle",
}
CERTAINTY_WORDS: Final = {
    "proven": "proven: the evidence itself shows it",
    "inferred": "inferred: it fits, and other evidence speaks against what else it could be",
    "possible": "possible: it fits, and so does something else",
}
RIVAL_WORDS: Final = {"excluded": "ruled out", "less_likely": "less likely", "open": "not ruled out"}
FAMILY_STATE_WORDS: Final = {
    "running": "running",
    "orphaned": "orphaned, its first process is gone",
    "stuck": "stuck, cannot end",
    "leaving": "ending",
    "gone": "gone",
}
SOURCE_WORDS: Final = {
    "recorded": "Recorded as it was run",
    "trace": "Known from the kernel's trace",
    "audit": "Known from the audit log",
    "sudo_log": "Known from sudo's log",
    "history": "Known from the shell's history",
    "transcript": "Known from the pasted terminal",
    "watch": "Seen by the flight recorder",
    "stated": "Stated by whoever asked for the report",
}
"""Where a clean-up command is known from."""
THEN_WORDS: Final = {
    "wait": "Wait",
    "verify": "Check",
    "collect": "Look further",
    "persistence_off": "Turn persistence mode off",
    "module_reload": "Reload the driver's modules",
    "gpu_reset": "Reset the GPU",
    "reboot": "Reboot",
    "ask_owner": "Ask the owner",
}
_CODE: Final = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_UNITS: Final = {"s": "s", "ms": "ms", "mib": "MiB", "kib": "KiB", "pct": "%"}


def word(words: dict[str, str], value: str) -> str:
    """The word for an enum value; a value of a later version is shown as it stands."""
    return words.get(value, value.replace("_", " "))


def number(value: float) -> str:
    """Thousands apart, and no more digits than a reader uses: ``92,967``, ``10.3``, ``0.013``."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:,.1f}".removesuffix(".0")


def mib(value: float | None) -> str:
    """A size with its unit; an unknown size says so."""
    return UNKNOWN if value is None else f"{number(value)} MiB"


def size(value: float | None) -> str:
    """A size where nothing beside it tells what it is."""
    return "size not known" if value is None else mib(value)


def total(values: Iterable[float | None]) -> str:
    """A sum that admits what it lacks: ``at least 8,802 MiB``."""
    known, lacks = 0.0, False
    for value in values:
        known, lacks = (known, True) if value is None else (known + value, lacks)
    if lacks:
        return f"at least {mib(known)}" if known else UNKNOWN
    return mib(known)


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 GPU``, ``8 GPUs``."""
    return f"{number(count)} {noun if count == 1 else many or noun + 's'}"


def pid_set(values: Iterable[int]) -> str:
    """PIDs whose order says nothing, sorted."""
    return number_ranges(sorted(set(values)))


def by_reason(pairs: Iterable[tuple[int, str]]) -> tuple[tuple[str, str], ...]:
    """PIDs that share a reason, together: (``887–890``, reason), in order of first appearance."""
    groups: dict[str, list[int]] = {}
    for pid, reason in pairs:
        if reason:
            groups.setdefault(reason, []).append(pid)
    return tuple((pid_set(group), reason) for reason, group in groups.items())


def listed(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def parse_time(time: str | None) -> datetime | None:
    """An RFC 3339 time in UTC; ``None`` if there is none or it cannot be read."""
    try:
        parsed = datetime.fromisoformat(time or "")
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def when(time: str | None, error_s: float | None = None) -> str:
    """A time as people read it, with its error where that is a second or more."""
    if time is None:
        return "time not known"
    parsed = parse_time(time)
    shown = time if parsed is None else f"{parsed:%Y-%m-%d %H:%M:%S} UTC"
    return f"{shown} ±{_duration(error_s)}" if error_s is not None and error_s >= 1 else shown


def look_time(look: LookRef) -> str:
    """When the machine was in this state, and who saw it if nobody looked."""
    seen = when(look.time, look.time_error_s)
    return f"{seen}, as the flight recorder had it" if look.recalled else seen


def _duration(seconds: float) -> str:
    """In the unit that people would use; what is an hour or less keeps its seconds."""
    return f"{number(round(seconds / 3600, 1))} h" if seconds > 3600 else f"{number(seconds)} s"


TEXT_CAP: Final = 3_000
"""Characters of one piece of prose in an output. Commands of the plan are never cut, and the JSON report has all."""


def bounded(text: str) -> str:
    """Prose as long as an output shows it: names and command lines in it are as long as somebody chose."""
    return clip(text, TEXT_CAP)


def clip(text: str, limit: int = 300) -> str:
    """At most ``limit`` characters; says how many were left out."""
    return text if len(text) <= limit else f"{text[:limit]}… ({number(len(text) - limit)} more characters)"


def spans(text: str) -> tuple[tuple[bool, str], ...]:
    """Prose cut at paired backticks into (is it code, text); lone, empty and doubled ones are plain text."""
    parts = _CODE.split(text)
    return tuple((index % 2 == 1, part) for index, part in enumerate(parts) if part)


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends with one already."""
    stripped = text.strip()
    return stripped if not stripped or stripped.endswith((".", "!", "?")) else stripped + "."


def statement(text: str) -> str:
    """A sentence of its own: what reads as the end of another one gets its capital and its full stop."""
    ended = sentence(text)
    return ended[:1].upper() + ended[1:]


def titled(rule: str, title: str | None) -> str:
    """A rule as a reader meets it: ``The step was never run (GPD108)``."""
    return rule if title is None else f"{title} ({rule})"


def tried(following: NextTime) -> str:
    """What the command for next time does to the recorded processes, and why it is that one."""
    matches = pid_set(following.matches) or "none of them"
    misses = f" and misses {pid_set(following.misses)}" if following.misses else ""
    numbers = "Its numbers are those of this run; the next run has others. " if following.of_this_run else ""
    did = f"Tried on the recorded processes, it hits {matches}{misses}. {statement(following.because)}"
    return f"{numbers}{did}".strip()


def tried_again(following: NextTime) -> str:
    """The same of the command that names no number of this run."""
    return f"This one names no number and hits the same. {statement(following.again_because)}".strip()


def step_outcomes(steps: Sequence[ActionStep]) -> tuple[str, ...]:
    """What each step did. A reason that several share stands in full once, at the first of them that kills.

    Those after it name it; those before it (a sleep between two kills) give none, so that nobody is sent ahead.
    """
    told: dict[tuple[str, str], str] = {}
    for step in sorted(steps, key=lambda step: step.tool is None):
        if step.because:
            told.setdefault((step.ran, step.because), step.id)
    outcomes: list[str] = []
    passed: set[str] = set()
    for step in steps:
        passed.add(step.id)
        first = told.get((step.ran, step.because), step.id)
        outcomes.append(step_outcome(step, "" if first == step.id else first if first in passed else None))
    return tuple(outcomes)


def step_outcome(step: ActionStep, reason_at: str | None = "") -> str:
    """What a step did, in sentences; nothing is said of a list that is empty because nothing is known.

    ``reason_at`` names the step before it that gives the reason in full; empty: this one; ``None``: one after it.
    """
    ran = word(RAN_WORDS, step.ran)
    if reason_at == "":
        ran = f"{ran}: {step.because}" if step.because else ran
    elif reason_at is not None and step.ran != "yes":
        ran = f"{ran}, for the same reason as {reason_at}"
    parts = [sentence(ran), *_hits(step)]
    if step.collateral:
        parts.append(f"Also hit, though not part of it: {pid_set(step.collateral)}.")
    if step.not_permitted:
        parts.append(f"Not permitted: {pid_set(step.not_permitted)}.")
    if step.error:
        parts.append(f"It said: {sentence(clip(step.error))}")
    if step.exit_code is not None and not re.search(rf"exit code {step.exit_code}\b", ran):
        parts.append(f"Exit code {step.exit_code}.")
    return " ".join(parts)


def _hits(step: ActionStep) -> list[str]:
    meant = set(step.hit).difference(step.collateral)
    hit = [pid_set(meant)] if meant else []
    hit.extend(step.hit_shells)
    verb = "Hit" if step.ran == "yes" else "If it ran, it hit"
    parts: list[str] = []
    if hit:
        parts.append(f"{verb} {listed(hit)}.")
    if step.missed:
        parts.append(f"Missed {pid_set(step.missed)}.")
    return parts


def frees(entry: KillEntry) -> str:
    """What ending a process gives back."""
    if entry.frees_mib is None:
        return "frees an amount not known"
    return "frees nothing itself" if entry.frees_mib == 0 else f"frees {mib(entry.frees_mib)}"


def trust_text(entry: KillEntry) -> str:
    """How sure the entry is, and what its command checks before it kills."""
    return f"{entry.certainty}; {_checked(entry)}"


def _checked(entry: KillEntry) -> str:
    if entry.identity == "weak" and entry.start_ticks is not None:
        return "the boot is not known, the command checks PID and start time"
    checks = {
        "strong": "the command checks that it is still the same process",
        "weak": "only PID and name are known, and the command checks both",
    }
    return word(checks, entry.identity)


def common_check(entries: Sequence[KillEntry]) -> str:
    """What the command checks, where that is the same for several entries; else empty."""
    said = {_checked(entry) for entry in entries}
    return said.pop() if len(said) == 1 and len(entries) > 1 else ""


def why(entry: KillEntry, check: str) -> str:
    """Why the process is to be killed and how sure that is; ``check`` is what has been said of all of them."""
    return f"{statement(entry.because)} {statement(entry.certainty if check else trust_text(entry))}".strip()


def reasons(entries: Sequence[KillEntry], check: str) -> tuple[tuple[str, str], ...]:
    """:func:`why`, with the PIDs that share it."""
    return by_reason((entry.pid, why(entry, check)) for entry in entries)


def name(entry: KillEntry) -> str:
    """What the process is called, or that this is not known."""
    return f"name {UNKNOWN}" if entry.name is None else entry.name


def fate_text(fate: Fate) -> str:
    """What one step did to one process."""
    head = f"{fate.step}: {word(REACHED_WORDS, fate.reached)} ({fate.certainty})"
    return f"{head}: {fate.because}" if fate.because else head


def measure(key: str, value: object) -> str:
    """A measure with the unit that its key ends in: ``released after 10.3 s``."""
    name, _, suffix = key.rpartition("_")
    unit = _UNITS.get(suffix)
    label = (name if unit and name else key).replace("_", " ")
    if value is None:
        return f"{label}: {UNKNOWN}"
    shown = number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
    return f"{label} {shown} {unit}" if unit and name else f"{label}: {shown}"


def place(report: Report, evidence: Evidence) -> str:
    """``after/query-apps.csv:5``; the input stands before it where there are several."""
    where = evidence.member if evidence.line is None else f"{evidence.member}:{evidence.line}"
    return f"{evidence.input} {where}" if len(report.inputs) > 1 else where
