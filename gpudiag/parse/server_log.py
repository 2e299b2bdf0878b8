"""Server logs: only the prefix that ties a role to a PID is kept (``(Worker_TP0 pid=887) INFO …``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, LogRole
from gpudiag.parse.source import QUOTE_CAP
from gpudiag.parse.values import PID_CAP

_ROLES_CAP = 10_000
_PREFIX = re.compile(
    r"^(?:\x1b\[[\d;]{0,12}m){0,4}\((?P<role>[A-Za-z][\w.:-]{0,63}) pid=(?P<pid>\d{1,7})\)", re.MULTILINE
)


def roles(exhibit: Exhibit) -> Iterator[LogRole]:
    """Each role and PID once, at its first line. Works on the text as it is: a log may have millions of lines."""
    text = exhibit.text
    if " pid=" not in text:
        return
    seen: set[tuple[str, int]] = set()
    counted, line = 0, exhibit.first_line
    for match in _PREFIX.finditer(text):
        pid, role = int(match["pid"]), match["role"]
        if len(seen) >= _ROLES_CAP:
            return
        if (role, pid) in seen or not 0 < pid <= PID_CAP:
            continue
        seen.add((role, pid))
        line += text.count("\n", counted, match.start())
        counted = match.start()
        end = text.find("\n", match.start(), match.start() + QUOTE_CAP)
        quote = text[match.start() : match.start() + QUOTE_CAP if end < 0 else end]
        yield LogRole(pid, role, Citation(exhibit.input, exhibit.member, line, quote))
