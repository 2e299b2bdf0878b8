"""``nvidia-smi pmon``: one row a process, names without folder and cut at 15 characters; memory only with ``-s m``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Booking
from gpudiag.parse.nvidia_smi_table import DEAD
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import gpu_ref, kind_of, mib, pid_of, shown_name

_HEADING = re.compile(r"#\s*gpu\s+pid\s+type\b")
_ROW = re.compile(r"\s*\d{1,4}\s+(?:\d{1,10}|-)\s+\S")


def begins(line: str) -> bool:
    """The first line of the heading."""
    return bool(_HEADING.match(line))


def continues(line: str) -> bool:
    """A row, or the second line of the heading (it is repeated in long runs)."""
    return line.startswith("#") or bool(_ROW.match(line))


def rows(segment: Segment) -> Iterator[Row]:
    """One booking a row; a row of dashes says that the GPU has no process."""
    columns: list[str] = []
    for offset, line in enumerate(segment.lines):
        if begins(line):
            columns = line.lstrip("# ").split()
        elif columns and _ROW.match(line):
            booking = _booking(segment, columns, offset, line)
            if booking is not None:
                yield booking
    headings = sum(map(begins, segment.lines))
    lines = tuple(line for line in segment.lines if line.strip())
    whole = segment.printout("pmon", lines, tuple(columns)) if headings == 1 and begins(segment.lines[0]) else None
    if whole is not None:
        yield whole
    complete = segment.shown is None or not segment.shown.filtered
    yield segment.coverage("compute processes", complete=complete, names_missing=DEAD)


def _booking(segment: Segment, columns: list[str], offset: int, line: str) -> Booking | None:
    parts = line.split(None, len(columns) - 1)
    values = dict(zip(columns, parts, strict=False))
    pid = pid_of(values.get("pid", ""))
    if pid is None:
        return None
    name, missing = shown_name(values.get("command", ""))
    return Booking(
        at=segment.place,
        gpu=gpu_ref(values.get("gpu", "")),
        pid=pid,
        mib=mib(values.get("fb", "")),
        name=name,
        name_missing=missing if "command" in values else None,
        kind=kind_of(values.get("type", "")),
        cited=segment.cite(offset),
    )
