"""A piece of an exhibit that one parser reads, and the citations that it makes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, Coverage, Damage, Place, Printout
from gpudiag.parse.commands import Shown
from gpudiag.parse.jsontext import JsonText

QUOTE_CAP = 300
"""Characters of a line that a citation keeps."""
PRINTOUT_CAP = 2000
"""Lines of a text that is kept whole, and characters of each."""


_OMISSION = re.compile(r"\s*[\[(<]?\s?(?:\.{3,6}|…|snip(?:ped)?|cut|omitted|truncated)\s?[\])>]?\s*\Z", re.IGNORECASE)


def is_omission(line: str) -> bool:
    """``...``, ``[...]``, ``<snip>``: whoever pasted the text has left lines out here."""
    return len(line) < 40 and bool(_OMISSION.match(line))


@dataclass(frozen=True)
class Segment:
    """Consecutive lines of an exhibit that are of one format."""

    exhibit: Exhibit
    place: Place
    start: int
    """Zero-based index of the first line in the exhibit's text."""
    lines: tuple[str, ...]
    shown: Shown | None
    """The command that printed the lines, if it can be told."""

    def cite(self, offset: int) -> Citation:
        """The line at this offset in the segment."""
        line = self.exhibit.first_line + self.start + offset
        return Citation(self.exhibit.input, self.exhibit.member, line, self.lines[offset][:QUOTE_CAP])

    def cite_json(self, document: JsonText, offset: int) -> Citation:
        """A place in the JSON document that the segment is."""
        line = self.exhibit.first_line + self.start + document.line_of(offset)
        return Citation(self.exhibit.input, self.exhibit.member, line, document.quote(offset, QUOTE_CAP))

    def top(self) -> Citation:
        """The first line, or the command where nothing was printed."""
        return self.cite(0) if self.lines else cite_command(self.exhibit)

    def damage(self, offset: int, reason: str) -> Damage:
        """A line that could not be read."""
        line = self.exhibit.first_line + self.start + offset
        return Damage(self.exhibit.input, self.exhibit.member, line, reason)

    def coverage(
        self,
        source: str,
        *,
        outcome: str = "ok",
        because: str | None = None,
        complete: bool | None = None,
        as_root: bool | None = None,
        names_missing: tuple[str, ...] = (),
    ) -> Coverage:
        """How far this segment reaches."""
        whole = complete and not any(is_omission(line) for line in self.lines)
        return Coverage(self.place, source, outcome, because, self.top(), whole, as_root, names_missing)

    def printout(self, kind: str, lines: tuple[str, ...], columns: tuple[str, ...] = ()) -> Printout | None:
        """The lines as they were printed; ``None`` where a filter or a person may have left some out."""
        changed = self.shown is not None and (self.shown.filtered or self.shown.reshaped)
        if changed or len(lines) > PRINTOUT_CAP or any(is_omission(line) or len(line) > PRINTOUT_CAP for line in lines):
            return None
        return Printout(self.place, kind, columns, lines, self.top())

    def at(self, time_ns: int | None, error_ns: int = 0) -> Place:
        """The segment's place at the source's own time; the recorded start of the command is kept if there is none."""
        return self.place if time_ns is None else replace(self.place, time_ns=time_ns, time_error_ns=error_ns)


def place_of(exhibit: Exhibit) -> Place:
    """Where and when an exhibit was taken."""
    return Place(exhibit.host, exhibit.look, exhibit.time_ns)


def cite_command(exhibit: Exhibit) -> Citation:
    """The command line of an exhibit that printed nothing: it stands just above where output would begin."""
    return Citation(exhibit.input, exhibit.member, max(1, exhibit.first_line - 1), (exhibit.command or "")[:QUOTE_CAP])
