"""The line of a TOML file on which a field stands: the parser gives values, and people look for lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADING = re.compile(r"\s*(\[\[?)\s*([\w.\"' -]{1,200}?)\s*\]")
_KEY = re.compile(r"\s*([\w\"'-]{1,100}(?:\s*\.\s*[\w\"'-]{1,100}){0,8})\s*=")
_FENCES = re.compile(r"\"\"\"|'''")

Place = tuple[int | str, ...]


def line_of(text: str, place: Sequence[int | str]) -> int | None:
    """One-based line of the deepest part of the place that is found; ``None`` if there is none of it.

    Parts of the place that the file does not have (the name of a variant) are passed over.
    """
    lines = _lines(text)
    found: Place = ()
    for part in place:
        if (*found, part) in lines:
            found = (*found, part)
    return lines.get(found)


def _lines(text: str) -> dict[Place, int]:
    """Line by place, for headings, keys, and the items of a list that begin a line."""
    found: dict[Place, int] = {}
    table: Place = ()
    counts: dict[Place, int] = {}
    key: Place = ()
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        fences = len(_FENCES.findall(line))
        was_inside, inside = inside, inside != (fences % 2 == 1)
        if was_inside:
            continue
        heading, assigned = _HEADING.match(line), _KEY.match(line)
        if heading is not None:
            table = _parts(heading[2])
            if heading[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                found.setdefault(table, number)
                table = (*table, counts[table])
            key = ()
            found.setdefault(table, number)
        elif assigned is not None and not line.lstrip().startswith("{"):
            key = (*table, *_parts(assigned[1]))
            found.setdefault(key, number)
        elif key and line.lstrip().startswith(("{", '"', "'")):
            counts[key] = counts.get(key, -1) + 1
            found.setdefault((*key, counts[key]), number)
    return found


def _parts(name: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in name.split("."))
