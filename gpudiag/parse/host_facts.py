"""``host.txt`` and ``supervisors.txt`` of a bundle: one thing a line, ``key: value``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import HostFact
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment

_LINE = re.compile(r"(?P<key>[A-Za-z][\w ]{0,80}): (?P<value>\S.{0,2000})")
_FACTS_CAP = 5000


def rows(segment: Segment) -> Iterator[Row]:
    """Facts under the names that the collector gives them; ``pid 44 SLURM_JOB_ID`` is about one process."""
    for offset, line in enumerate(segment.lines[:_FACTS_CAP]):
        match = _LINE.match(line)
        if match:
            yield HostFact(segment.place, match["key"], match["value"].rstrip(), segment.cite(offset))
