"""Why memory is held, in short, and what would tell more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpudiag.report.contract import Evidence, Finding, Report, UnknownRule
from gpudiag.report.text import CERTAINTY_WORDS, listed, mib, statement, titled, word

NO_CAUSE: Final = "GPD901"
"""The rule that says that the evidence does not tell a cause: that may be proven, but is none."""
MAX_CAUSES: Final = 4
"""Causes on the first screen; all are told further down."""
_TELLING: Final = 12
"""Characters from which on a quoted line is taken to say something by itself: ``"887": {`` does not."""


@dataclass(frozen=True)
class Cause:
    """One answer to why memory is held, for the first screen."""

    label: str
    """``Why``, or ``Also`` for the cause of another server's memory."""
    finding: Finding

    @property
    def words(self) -> str:
        """``The pattern does not match the process that holds the memory (GPD101), 35,208 MiB``."""
        explains = "" if self.finding.explains_mib is None else f", {mib(self.finding.explains_mib)}"
        return f"{titled(self.finding.rule, self.finding.title)}{explains}"

    @property
    def told(self) -> str:
        """The cause in sentences: its words, how sure it is, and what that means."""
        return f"{self.words}. {self.sure}".rstrip()

    @property
    def sure(self) -> str:
        """How sure the cause is; empty where the finding says that none is known."""
        return "" if self.finding.rule == NO_CAUSE else statement(word(CERTAINTY_WORDS, self.finding.certainty))


@dataclass(frozen=True)
class Ask:
    """One command that would settle what several rules lack."""

    rules: tuple[UnknownRule, ...]
    collect: str
    read: frozenset[str]
    """Sources that were read: what a rule lacks of them, they do not tell."""

    @property
    def words(self) -> str:
        """What is asked, before the list of the rules."""
        sources = dict.fromkeys(source for rule in self.rules for source in rule.missing)
        absent = [source for source in sources if source not in self.read]
        short = [source for source in sources if source in self.read]
        if short and not absent:
            return f"What was read of the {listed(short)} says too little to tell whether this applies:"
        parts = [*(f"no {source}" for source in absent), *([f"too little in the {listed(short)}"] if short else [])]
        about = f" ({', '.join(parts)})" if parts else ""
        return f"Too little evidence{about} to tell whether this applies:"


def causes(report: Report) -> tuple[Cause, ...]:
    """The main cause, and that of each other server that still holds memory; empty where no cause is named."""
    primary = next((finding for finding in report.findings if finding.primary), None)
    if primary is None:
        return ()
    found = {(primary.rule, family): primary for family in primary.families}
    for finding in report.findings:
        for family in finding.families:
            found.setdefault((finding.rule, family), finding)
    held = (family for family in report.families if family.outcome == "memory_held" and family.primary)
    named = [primary]
    for family in held:
        finding = found.get((family.primary or "", family.id))
        if finding is not None and finding not in named:
            named.append(finding)
    first = "Found" if report.outcome in ("released", "nothing_held") else "Why"
    return tuple(Cause("Also" if n else first, finding) for n, finding in enumerate(named[:MAX_CAUSES]))


def asks(report: Report) -> tuple[Ask, ...]:
    """What is not known, by the command that would tell."""
    by_command: dict[str, list[UnknownRule]] = {}
    for rule in report.unknown:
        by_command.setdefault(rule.collect, []).append(rule)
    read = read_sources(report)
    return tuple(Ask(tuple(rules), command, read) for command, rules in by_command.items())


def read_sources(report: Report) -> frozenset[str]:
    """Classes of evidence of which something was read."""
    commands = {"kill commands"} if report.actions else set[str]()
    return frozenset({source.source for source in report.sources if source.outcome == "ok"} | commands)


def standing(finding: Finding) -> tuple[str, ...]:
    """Whether it is the main cause, and how sure; nothing of what says that no cause is known."""
    if finding.rule == NO_CAUSE:
        return ()
    return (*(("main cause",) if finding.primary else ()), finding.certainty)


def quotes(finding: Finding) -> tuple[Evidence, ...]:
    """The finding's evidence, lines that say something before those that only mark a place in a file."""
    return tuple(sorted(finding.evidence, key=lambda item: len(item.quote.strip()) < _TELLING))
