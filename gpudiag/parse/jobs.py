"""``squeue`` with its default columns."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Job
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment

_HEADING = re.compile(r"\s*JOBID\s+PARTITION\s+NAME\s+USER\s+ST\s+TIME\s+NODES\s+NODELIST\(REASON\)\s*\Z")
_ROW = re.compile(
    r"\s*(?P<id>\d{1,12}\S{0,40})\s+\S{1,64}\s+(?P<name>\S.{0,63}?)\s+(?P<user>\S{1,64})\s+(?P<state>[A-Z]{1,2})\s+"
    r"(?:[\d:-]{1,20}|INVALID)\s+\d{1,7}\s+(?P<nodes>\S.{0,300}?)\s*\Z"
)


def rows(segment: Segment) -> Iterator[Row]:
    """One job a line."""
    for offset, line in enumerate(segment.lines):
        match = _ROW.match(line)
        if match:
            yield Job(
                at=segment.place,
                cited=segment.cite(offset),
                id=match["id"],
                name=match["name"],
                user=match["user"],
                state=match["state"],
                nodes=match["nodes"],
            )
    yield segment.coverage("jobs", complete=False)


def _default_format(shown: Shown) -> bool:
    return shown.tool == "squeue" and not any(word.startswith(("-o", "-O", "--format", "--F")) for word in shown.argv)


LISTING = Listing(
    rows=rows,
    begins=lambda line: bool(_HEADING.match(line)),
    continues=lambda line: bool(_ROW.match(line)),
    printed_by=lambda shown: shown.tool == "squeue",
    headless=lambda shown, line: _default_format(shown) and bool(_ROW.match(line)),
)
