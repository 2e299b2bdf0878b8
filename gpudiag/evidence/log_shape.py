"""Tell a log from a pasted session by its two ends, so that a log of any length can stay on disk."""

from __future__ import annotations

import re

from gpudiag.evidence.header import has_header, split_header
from gpudiag.evidence.names import is_log
from gpudiag.evidence.prompts import clean_lines, typed_commands

_FRONT = re.compile(
    r"[\[{(<]?(?:\"log\":\"|[A-Za-z0-9_.-]{1,64} {1,40}\| )?(?:"
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d"
    r"|[A-Z][a-z]{2} [A-Z]?[a-z]{0,2} ?[ \d]\d \d\d:\d\d"
    r"|[EWIF]\d{4} \d\d:\d\d"
    r"|(?:TRACE|DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\b"
    r"|[A-Za-z][\w.:-]{0,63}(?: rank=\d{1,6})? pid=\d{1,7}[,)]"
    r"| {0,12}\d{1,10}\.\d{6}\]"
    r")"
)
"""How lines of servers, containers, the journal and the kernel begin."""


def is_log_alone(name: str, head: str, tail: str) -> bool:
    """Both ends of a file are a log's and show no typed command; a header that says how it was taken may stand above.

    Without a log's name, at least half of the lines begin as a log's do: the others are tracebacks, banners, progress.
    """
    above = has_header(head)
    body = split_header(head).text if above else head
    # The last line of the one and the first of the other may be cut.
    ends = [[line for line in lines if line.strip()] for lines in (clean_lines(body)[:-1], clean_lines(tail)[1:])]
    if any(next(typed_commands(lines, above), None) is not None for lines in ends):
        return False
    return is_log(name) or all(0 < len(lines) <= 2 * sum(map(_begins, lines)) for lines in ends)


def _begins(line: str) -> bool:
    return bool(_FRONT.match(line))
