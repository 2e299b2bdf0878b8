"""``lsmod``: the loaded kernel modules and who uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import KernelModule
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment

_HEADING = re.compile(r"Module {1,40}Size {1,4}Used by\s*\Z")
_ROW = re.compile(r"(?P<name>[a-z][\w-]{0,60})\s+\d{1,12}\s+(?P<uses>\d{1,9})(?:\s+(?P<by>[\w,-]{1,400}))?\s*\Z")


def rows(segment: Segment) -> Iterator[Row]:
    """One row a module."""
    for offset, line in enumerate(segment.lines):
        match = _ROW.match(line)
        if match:
            users = tuple(name for name in (match["by"] or "").split(",") if name)
            yield KernelModule(segment.place, match["name"], int(match["uses"]), users, segment.cite(offset))


def _lists(shown: Shown) -> bool:
    return shown.tool == "lsmod" and not shown.reshaped


LISTING = Listing(
    rows=rows,
    begins=lambda line: bool(_HEADING.match(line)),
    continues=lambda line: bool(_ROW.match(line)),
    printed_by=_lists,
    headless=lambda shown, line: _lists(shown) and bool(_ROW.match(line)),
)
