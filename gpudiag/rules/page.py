"""A rule as a page of plain text: what a person reads who asks what an id means."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from gpudiag.rules.schema import Rule

WIDTH = 80


def render(rule: Rule) -> str:
    """The page, every line at most ``WIDTH`` columns unless one word is longer; ends with a newline."""
    return "\n".join(_lines(rule)) + "\n"


def _lines(rule: Rule) -> Iterator[str]:
    yield f"{rule.id} {rule.slug} ({rule.maturity}, since {rule.since})"
    yield from _filled(rule.title)
    for heading, text in (
        ("What it is", rule.doc.what_it_is),
        ("How it is told apart", rule.doc.how_told_apart),
        ("What to do", rule.doc.what_to_do),
        ("What settles it", rule.settled_by),
    ):
        yield from ("", heading, *_filled(text))
    if rule.rivals:
        yield from ("", "What looks alike")
        for rival in rule.rivals:
            yield from _listed(f"{rival.rule}: {rival.because}")
    if rule.missing:
        yield from ("", "Evidence it needs")
        for source, collect in dict.fromkeys((need.source, need.collect) for need in rule.missing.values()):
            # A command is copied from here, so its line is not broken.
            yield from (f"  - {source}:", f"      {collect}")
    yield from ("", "Known gaps")
    for gap in rule.doc.known_gaps:
        yield from _listed(gap)


def _filled(text: str) -> list[str]:
    return _wrapped(text, "  ", "  ")


def _listed(text: str) -> list[str]:
    return _wrapped(text, "  - ", "    ")


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
