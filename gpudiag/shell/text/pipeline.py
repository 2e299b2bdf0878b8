"""A pipeline of filters over known text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpudiag.shell.text import plain
from gpudiag.shell.text.awk import awk
from gpudiag.shell.text.base import MAX_CHARACTERS, MAX_LINES, Lines, UnreadError
from gpudiag.shell.text.grep import grep
from gpudiag.shell.text.sed import sed

GREPS = frozenset({"grep", "egrep", "fgrep"})
_FILTERS: dict[str, Callable[[Sequence[str], Lines], Lines]] = {
    "awk": awk,
    "gawk": awk,
    "mawk": awk,
    "sed": sed,
    "cut": plain.cut,
    "tr": plain.tr,
    "head": plain.head,
    "tail": plain.tail,
    "sort": plain.sort,
    "uniq": plain.uniq,
    "tac": plain.tac,
    "cat": plain.cat,
    "paste": plain.paste,
    "wc": plain.wc,
    "xargs": plain.xargs,
}


def filtered(lines: Lines, stages: Sequence[Sequence[str | None]]) -> Lines | None:
    """What comes out at the end; ``None`` where that is not known. A stage is a program with its arguments."""
    try:
        for stage in stages:
            if len(lines) > MAX_LINES or sum(map(len, lines)) > MAX_CHARACTERS:
                return None
            lines = _through(lines, stage)
    except UnreadError:
        return None
    return lines


def _through(lines: Lines, stage: Sequence[str | None]) -> Lines:
    words = [word for word in stage if word is not None]
    if not words or len(words) != len(stage):
        raise UnreadError
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if program in GREPS:
        return grep(program, arguments, lines)
    if program not in _FILTERS:
        raise UnreadError
    return _FILTERS[program](arguments, lines)
