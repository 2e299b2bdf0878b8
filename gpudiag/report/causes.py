"""Why memory is held, in short, and what would tell more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpudiag.report.contract import Evidence, Finding, Report, UnknownRule
from gpudiag.report.text import CERTAINTY_WORDS, listed, mib, statement, titled, word

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
    def sure(self) -> str:
        """How sure the cause is, and what that means."""
        return statement(word(CERTAINTY_WORDS, self.finding.certainty))


@dataclass(frozen=True)
class Ask:
    """One command that would settle what several rules lack."""

    rules: tuple[UnknownRule, ...]
    collect: str

    @property
    def words(self) -> str:
        """What is asked, before the list of the rules. The source may have been read and still say too little."""
        sources = tuple(dict.fromkeys(source for rule in self.rules for source in rule.missing))
        about = f" ({listed(sources)})" if sources else ""
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
    return tuple(Ask(tuple(rules), command) for command, rules in by_command.items())


def quotes(finding: Finding) -> tuple[Evidence, ...]:
    """The finding's evidence, lines that say something before those that only mark a place in a file."""
    return tuple(sorted(finding.evidence, key=lambda item: len(item.quote.strip()) < _TELLING))
