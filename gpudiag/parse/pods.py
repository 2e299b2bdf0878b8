"""``kubectl get pods`` in its table forms."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Pod
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import whole

_HEADING = re.compile(r"(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE\b")
_ROW = re.compile(
    r"(?:(?P<namespace>[a-z0-9][a-z0-9-]{0,62})\s+)?(?P<name>[a-z0-9][a-z0-9.-]{0,252})\s+\d{1,4}/\d{1,4}\s+"
    r"(?P<status>[A-Z][\w:/]{1,60})\s+(?P<restarts>\d{1,9})(?: \([^()]{1,30}\))?\s+\d\S{0,15}"
    r"(?:\s+(?P<address>\S{1,60})\s+(?P<node>\S{1,253})(?:\s+\S.*)?)?\s*\Z"
)


def rows(segment: Segment) -> Iterator[Row]:
    """One pod a line."""
    for offset, line in enumerate(segment.lines):
        match = _ROW.match(line)
        if match:
            node = match["node"]
            yield Pod(
                at=segment.place,
                cited=segment.cite(offset),
                name=match["name"],
                namespace=match["namespace"],
                status=match["status"],
                restarts=whole(match["restarts"]),
                node=None if node in (None, "<none>") else node,
            )
    yield segment.coverage("pods", complete=False)


def _printed_by(shown: Shown) -> bool:
    words = shown.argv[1:]
    return shown.tool in ("kubectl", "oc") and "get" in words and any(re.match(r"(?:pods?|po)\b", w) for w in words)


LISTING = Listing(
    rows=rows,
    begins=lambda line: bool(_HEADING.match(line)),
    continues=lambda line: bool(_ROW.match(line)),
    printed_by=_printed_by,
    headless=lambda shown, line: _printed_by(shown) and bool(_ROW.match(line)),
)
