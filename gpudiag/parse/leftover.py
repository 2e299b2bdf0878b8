"""Lines that no parser knows are counted and named, so that a reader sees what the report is silent about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, Coverage
from gpudiag.parse.commands import shown_commands
from gpudiag.parse.parsed import Row
from gpudiag.parse.replies import is_reply
from gpudiag.parse.segments import Pieces
from gpudiag.parse.source import QUOTE_CAP, place_of

SOURCE = "text"
_ROWS_CAP = 200
"""Rows for one input; a file with more pieces of unknown text is no session."""


def rows(exhibit: Exhibit, pieces: Pieces, read: Iterable[Row]) -> Iterator[Coverage]:
    """One row for the exhibit if it has lines that were neither read, nor cited, nor a shell's usual message."""
    cited = {line for row in read if (line := _line_of(row)) is not None}
    left = [
        position
        for position in pieces.unclaimed
        if exhibit.first_line + position not in cited and not is_reply(pieces.lines[position])
    ]
    if not left:
        return
    line = exhibit.first_line + left[0]
    quote = Citation(exhibit.input, exhibit.member, line, pieces.lines[left[0]][:QUOTE_CAP])
    yield Coverage(place_of(exhibit), SOURCE, "not_understood", _because(exhibit, line, len(left)), quote)


def capped(found: Sequence[Row]) -> Iterator[Row]:
    """All rows; of those about unknown text the first ones, and the rest as one."""
    kept = 0
    rest: list[Coverage] = []
    for row in found:
        if isinstance(row, Coverage) and row.source == SOURCE:
            kept += 1
            if kept > _ROWS_CAP:
                rest.append(row)
                continue
        yield row
    if rest:
        first = rest[0]
        more = f"{len(rest)} more places with lines that no parser knows, from here on: {first.because}"
        yield replace(first, because=more)


def _line_of(row: Row) -> int | None:
    cited = getattr(row, "cited", None)
    if isinstance(cited, Citation):
        return cited.line
    line = getattr(row, "line", None)
    return line if isinstance(line, int) else None


def _because(exhibit: Exhibit, line: int, count: int) -> str:
    tools = list(dict.fromkeys(command.tool for command in shown_commands(exhibit.command)))
    by = f", printed by {' or '.join(tools[:3])}" if tools else ""
    lines = "1 line that no parser knows" if count == 1 else f"{count} lines that no parser knows"
    return f"{exhibit.member} from line {line}: {lines}{by}"
