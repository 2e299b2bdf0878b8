"""What the filters share."""

from __future__ import annotations

from collections.abc import Sequence

from gpudiag.shell.regex import RegexError, Spans, find, match

Lines = tuple[str, ...]
MAX_LINES = 20_000
MAX_CHARACTERS = 2 * 1024 * 1024


class UnreadError(Exception):
    """The filter is used in a way that is not read here: what it prints is unknown. Never leaves this package."""


def matches(
    pattern: str, lines: Sequence[str], *, extended: bool = True, ignore_case: bool = False, whole: bool = False
) -> list[bool]:
    """Whether each line holds a match. Raises ``UnreadError`` where the library gives no answer."""
    found = match(pattern, lines, extended=extended, ignore_case=ignore_case, whole=whole)
    if isinstance(found, RegexError) or None in found:
        raise UnreadError
    return [bool(one) for one in found]


def spans(
    pattern: str, lines: Sequence[str], *, extended: bool = True, ignore_case: bool = False, perl: bool = False
) -> list[list[Spans]]:
    """Where each line matches. Raises ``UnreadError`` as ``matches`` does."""
    found = find(pattern, lines, extended=extended, ignore_case=ignore_case, perl=perl)
    if isinstance(found, RegexError):
        raise UnreadError
    return found


def as_lines(text: str) -> Lines:
    """Lines of a text; a last one without its end is one, too."""
    return tuple(text.removesuffix("\n").split("\n")) if text else ()


def number(text: str) -> int:
    """A count as options give it. Raises ``UnreadError``."""
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise UnreadError
    return int(text)
