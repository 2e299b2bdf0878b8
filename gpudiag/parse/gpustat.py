"""``gpustat``: one line a GPU, sizes in binary megabytes; PIDs only with ``-p``, names only with ``-c``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Booking, GpuSample, HostFact
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import gpu_ref, mib, pid_of

_HEAD = re.compile(
    r"\S{1,100}\s+([A-Z][a-z]{2} [A-Z][a-z]{2}\s{1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})(?:\s+(\d{3}[\d.]{1,12}))?\s*\Z"
)
_ROW = re.compile(
    r"\[(?P<index>\d{1,4})\]\s+(?P<name>[^|]{1,100}?)\s*\|[^|]{0,100}'C[^|]{0,60}\|"
    r"\s*(?P<used>\d{1,9}|\?+)\s*/\s*(?P<total>\d{1,9}|\?+)\s*MB\s*(?:\|(?P<processes>.*))?\Z"
)
_PROCESS = re.compile(
    r"(?:^|\s)[^\s:/]{1,64}(?::(?P<name>[^\s/()]{1,64}))?/(?P<pid>\d{1,10})\((?P<size>\d{1,9}|\?+)M\)"
)


def _continues(line: str) -> bool:
    return bool(_ROW.match(line))


def rows(segment: Segment) -> Iterator[Row]:
    """One sample a GPU, one booking a process with a PID."""
    listed = False
    for offset, line in enumerate(segment.lines):
        head, match = _HEAD.match(line), _ROW.match(line)
        if head:
            yield HostFact(segment.place, "shown_time", head[1], segment.cite(offset))
            if head[2]:
                yield HostFact(segment.place, "driver_version", head[2], segment.cite(offset))
        if not match:
            continue
        gpu = gpu_ref(match["index"])
        used, total = mib(match["used"]), mib(match["total"])
        yield GpuSample(segment.place, gpu, used, total, None, False, match["name"], segment.cite(offset))
        for found in _PROCESS.finditer(match["processes"] or ""):
            pid = pid_of(found["pid"])
            if pid is not None:
                listed = True
                size = mib(found["size"])
                yield Booking(segment.place, gpu, pid, size, found["name"], None, "unknown", segment.cite(offset))
    filtered = segment.shown is not None and segment.shown.filtered
    yield segment.coverage("gpu memory", complete=not filtered)
    if listed:
        # It leaves out whatever it cannot look up, the dead above all.
        yield segment.coverage("compute processes", complete=False, names_missing=("dead",))


LISTING = Listing(
    rows=rows,
    begins=lambda line: bool(_ROW.match(line) or _HEAD.match(line)),
    continues=_continues,
    printed_by=lambda shown: shown.tool == "gpustat",
)
