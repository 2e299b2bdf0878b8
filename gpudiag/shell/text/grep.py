"""grep, egrep and fgrep as filters."""

from __future__ import annotations

import getopt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpudiag.shell.text.base import Lines, UnreadError, matches, number, spans

_SHORT = "vieFEGPwxoncqsabhHm:A:B:C:yzZ"
_LONG = [
    "invert-match", "ignore-case", "regexp=", "fixed-strings", "extended-regexp", "basic-regexp", "perl-regexp",
    "word-regexp", "line-regexp", "only-matching", "line-number", "count", "quiet", "no-messages", "max-count=",
    "after-context=", "before-context=", "context=", "line-buffered", "color=", "color", "colour=", "text",
]  # fmt: skip
_NAMES = {
    "--invert-match": "v", "--ignore-case": "i", "--regexp": "e", "--fixed-strings": "F", "--extended-regexp": "E",
    "--perl-regexp": "P", "--word-regexp": "w", "--line-regexp": "x", "--only-matching": "o", "--line-number": "n",
    "--count": "c", "--quiet": "q", "--max-count": "m", "--after-context": "A", "--before-context": "B",
    "--context": "C", "--text": "a",
}  # fmt: skip
_IGNORED = ("s", "h", "y", "a", "no-messages", "line-buffered", "color", "colour", "basic-regexp", "G")


@dataclass(frozen=True)
class Grep:
    """A grep, understood."""

    patterns: tuple[str, ...]
    kind: str
    """``basic``, ``extended``, ``fixed`` or ``perl``."""
    flags: frozenset[str]
    before: int = 0
    after: int = 0
    most: int | None = None

    @property
    def inverts(self) -> bool:
        """It prints what does not match."""
        return "v" in self.flags

    def picks(self, lines: Sequence[str]) -> list[bool]:
        """Which lines are picked. Raises ``UnreadError``."""
        hits = [False] * len(lines)
        for pattern in self.patterns:
            found = self._hits(pattern, lines)
            hits = [one or other for one, other in zip(hits, found, strict=True)]
        return [hit != self.inverts for hit in hits]

    def _hits(self, pattern: str, lines: Sequence[str]) -> list[bool]:
        ignore = bool(self.flags & {"i", "y"})
        if self.kind == "perl":
            if self.flags & {"w", "x"}:
                raise UnreadError
            return [bool(found) for found in spans(pattern, lines, perl=True, ignore_case=ignore)]
        return matches(self.expression(pattern), lines, extended=self.kind == "extended", ignore_case=ignore)

    def expression(self, pattern: str) -> str:
        """The pattern with what ``-F``, ``-w`` and ``-x`` add to it."""
        if self.kind == "fixed":
            pattern = re.sub(r"([][\\.*^$])", r"\\\1", pattern)
        extended = self.kind == "extended"
        if "x" in self.flags:
            return f"^({pattern})$" if extended else f"^\\({pattern}\\)$"
        if "w" in self.flags:
            # Between characters that are no part of a word, which need not be where a word begins.
            return f"(^|\\W)({pattern})(\\W|$)" if extended else f"\\(^\\|\\W\\)\\({pattern}\\)\\(\\W\\|$\\)"
        return pattern


def read(program: str, arguments: Sequence[str]) -> Grep:
    """Takes the words apart. Raises ``UnreadError``."""
    try:
        options, operands = getopt.gnu_getopt(_with_pattern_option(arguments), _SHORT.replace("e", "e:"), _LONG)
    except getopt.GetoptError:
        raise UnreadError from None
    given = [value for name, value in options if name in ("-e", "--regexp")]
    values = {_NAMES.get(name, name.lstrip("-")): value for name, value in options}
    if set(values) & {"z", "Z", "b", "H"}:
        raise UnreadError
    flags = frozenset(values) - set(_IGNORED)
    if not given:
        given, operands = operands[:1], operands[1:]
    if not given or operands not in ([], ["-"]):
        raise UnreadError
    kinds = [kind for letter, kind in (("F", "fixed"), ("E", "extended"), ("P", "perl")) if letter in flags]
    kind = {"egrep": "extended", "fgrep": "fixed"}.get(program, kinds[0] if kinds else "basic")
    around = number(values.get("C", "0"))
    most = number(values["m"]) if "m" in values else None
    patterns = tuple(line for text in given for line in text.split("\n"))
    return Grep(
        patterns, kind, flags, number(values.get("B", "0")) or around, number(values.get("A", "0")) or around, most
    )


def _with_pattern_option(arguments: Sequence[str]) -> list[str]:
    """``grep -5`` is ``grep -C 5``."""
    return [f"-C{word[1:]}" if re.fullmatch(r"-\d{1,4}", word) else word for word in arguments]


def grep(program: str, arguments: Sequence[str], lines: Lines) -> Lines:
    """What it prints. Raises ``UnreadError``."""
    asked = read(program, arguments)
    if asked.flags & {"q"}:
        return ()
    if "o" in asked.flags:
        return tuple(_parts(asked, lines))
    picked = [place for place, hit in enumerate(asked.picks(lines)) if hit]
    picked = picked if asked.most is None else picked[: asked.most]
    if "c" in asked.flags:
        return (str(len(picked)),)
    return tuple(_shown(asked, picked, lines))


def _parts(asked: Grep, lines: Lines) -> Iterator[str]:
    """``-o``: what matched. Several patterns, ``-w``, ``-v`` and context with it are not read."""
    if len(asked.patterns) != 1 or asked.flags & {"v", "w", "c", "n"} or asked.before or asked.after:
        raise UnreadError
    pattern, perl = asked.patterns[0], asked.kind == "perl"
    pattern = pattern if perl else asked.expression(pattern)
    ignore = "i" in asked.flags
    found = spans(pattern, lines, extended=asked.kind == "extended", ignore_case=ignore, perl=perl)
    hits = 0
    for line, several in zip(lines, found, strict=True):
        hits += bool(several)
        if asked.most is not None and hits > asked.most:
            return
        yield from (line[groups[0][0] : groups[0][1]] for groups in several if groups[0][1] > groups[0][0])


def _shown(asked: Grep, picked: Sequence[int], lines: Lines) -> Iterator[str]:
    """The lines, with those around them; ``--`` stands between groups."""
    hits = set(picked)
    shown = sorted(
        {n for hit in picked for n in range(hit - asked.before, hit + asked.after + 1) if 0 <= n < len(lines)}
    )
    for position, place in enumerate(shown):
        if (asked.before or asked.after) and position > 0 and shown[position - 1] != place - 1:
            yield "--"
        prefix = f"{place + 1}{':' if place in hits else '-'}" if "n" in asked.flags else ""
        yield prefix + lines[place]
