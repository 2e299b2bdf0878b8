"""How often a kill runs, and with which arguments, where the very text of its list is known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpudiag.shell.lines import FIRST_LIST_HOLE, HOLE, Substitution, Word
from gpudiag.shell.quoting import literal
from gpudiag.shell.text.base import Lines, UnreadError
from gpudiag.shell.text.plain import arguments_of
from gpudiag.shell.tools.listing import Looking, exact_lines

_FIRST_LIST = chr(FIRST_LIST_HOLE)
_MAX_CALLS = 512


@dataclass(frozen=True)
class Calls:
    """What the shell or xargs makes of one written kill."""

    each: tuple[tuple[Word, ...], ...]
    """Words of each call; a list whose text is not known still stands in them."""
    fed_by: Substitution | None
    """The list before an xargs or a loop, unless it is filled in."""
    written: frozenset[str]
    """Arguments that stand in the command itself."""
    printed_by: str | None = None
    """The command whose text was filled in."""
    by_xargs: bool = False
    looped: bool = False
    """A loop runs it, once for each word or line of the list."""
    changes_the_code: bool = False
    """Further lines of the list are commands of their own, with exit codes of their own."""


def calls_of(
    words: Sequence[Word], fed_by: Substitution | None, look: Looking, xargs: Sequence[str] | None, *, looped: bool
) -> Calls:
    """Fills in the lists of which every character is known."""
    unknown = [word for word in words if word.text is None]
    if unknown and xargs is None and not any(word.template == HOLE and "$" in word.raw for word in unknown):
        # What it names is no variable of the loop: an outer shell has filled it in already.
        fed_by = None
    written = frozenset(word.text for word in words if word.text is not None)
    through_variable = not any(re.search(r"\$\(|`", word.raw) for word in words if word.substitutions)
    lists = [one for word in words for one in word.substitutions]
    in_loop = (fed_by is not None and xargs is None) or (looped and through_variable and len(lists) == 1)
    plain = Calls((tuple(words),), fed_by, written, by_xargs=xargs is not None, looped=in_loop)
    if fed_by is not None:
        lines = exact_lines(fed_by, look)
        each = None if lines is None else _fed(words, lines, xargs)
        return plain if each is None else Calls(each, None, written, fed_by.text, xargs is not None)
    if len(lists) != 1:
        return plain
    lines = exact_lines(lists[0], look)
    if lines is None:
        return plain
    several = lists[0].in_lines and len(lines) > 1
    filled = _filled(words, lines[:1] if several else lines)
    if filled is None:
        return plain
    if in_loop:
        place = next(n for n, word in enumerate(words) if word.substitutions)
        count = len(filled) - len(words) + 1
        each = tuple((*words[:place], one, *words[place + 1 :]) for one in filled[place : place + count])
        return Calls(each, None, written, lists[0].text)
    return Calls((filled,), None, written, lists[0].text, changes_the_code=several)


def _filled(words: Sequence[Word], lines: Lines) -> tuple[Word, ...] | None:
    """The words with the list in its place; ``None`` where something else in that word is unknown."""
    found: list[Word] = []
    for word in words:
        if not word.substitutions:
            found.append(word)
            continue
        before, mark, after = word.template.partition(_FIRST_LIST)
        if not mark or any(ord(char) >= ord(HOLE) for char in before + after):
            return None
        if word.substitutions[0].quoted:
            found.append(literal(before + "\n".join(lines) + after))
            continue
        text = f"{before}{chr(10).join(lines)}{after}"
        found.extend(literal(part) for part in text.split())
    return tuple(found)


def _fed(words: Sequence[Word], lines: Lines, xargs: Sequence[str] | None) -> tuple[tuple[Word, ...], ...] | None:
    """Calls of xargs, or of a loop that reads the lines; ``None`` if they cannot be told."""
    if len(lines) > _MAX_CALLS:
        return None
    if xargs is None:
        return _read(words, lines)
    text = " ".join(xargs)
    try:
        arguments = list(arguments_of(lines))
    except UnreadError:
        return None
    if re.search(r"(?:^| )(?:-I|-i|--replace)", text):
        taken = [line.lstrip() for line in lines if line.strip()]
        return tuple((*words, literal(one)) for one in taken)
    if re.search(r"(?:^| )-(?:[0adEPs]|-null|-delimiter|-arg-file|-max-procs|-max-chars)", text):
        return None
    one_by_one = re.search(r"(?:^| )(?:-n|-L|--max-args=?|--max-lines=?) ?(\d{1,4})", text)
    if one_by_one is None:
        spared = re.search(r"(?:^| )(?:-[a-z]*r|--no-run-if-empty)", text) is not None
        return () if spared and not arguments else ((*words, *map(literal, arguments)),)
    size = int(one_by_one[1])
    if size == 0 or "L" in text:
        return None
    return tuple((*words, *map(literal, arguments[n : n + size])) for n in range(0, len(arguments), size))


def _read(words: Sequence[Word], lines: Lines) -> tuple[tuple[Word, ...], ...] | None:
    """``while read p; do kill $p; done``: the variable is the one word that is not known."""
    places = [n for n, word in enumerate(words) if word.text is None]
    if len(places) != 1 or words[places[0]].template != HOLE or "$" not in words[places[0]].raw:
        return None
    place = places[0]
    quoted = words[place].raw.startswith('"')
    return tuple(
        (*words[:place], *map(literal, [line.strip()] if quoted else line.split()), *words[place + 1 :])
        for line in lines
    )
