"""``ss -ltnp`` and ``netstat -ltnp``: who listens on which port."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Listener
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of, whole

_HEADINGS = re.compile(
    r"(?:Netid\s+)?State\s+Recv-Q\s+Send-Q\s+Local Address:Port\b|Proto Recv-Q Send-Q Local Address\b"
    r"|Active Internet connections\b"
)
_SS = re.compile(
    r"(?:tcp\s+)?LISTEN\s+\d{1,10}\s+\d{1,10}\s+(?P<address>\S{1,100}):(?P<port>\d{1,5})\s+\S{1,100}"
    r"(?:\s+users:\(\((?P<users>.{1,4000})\)\))?(?:\s.*)?\Z"
)
_USER = re.compile(r'"(?P<comm>[^"]{1,64})",pid=(?P<pid>\d{1,10}),')
_NETSTAT = re.compile(
    r"tcp6?\s+\d{1,10}\s+\d{1,10}\s+(?P<address>\S{1,100}):(?P<port>\d{1,5})\s+\S{1,100}\s+LISTEN"
    r"(?:\s+(?:(?P<pid>\d{1,10})/(?P<comm>\S.{0,60}?)|-))?\s*\Z"
)


def rows(segment: Segment) -> Iterator[Row]:
    """One listener a line."""
    for offset, line in enumerate(segment.lines):
        ss, netstat = _SS.match(line), _NETSTAT.match(line)
        match = ss or netstat
        port = whole(match["port"]) if match else None
        if match is None or port is None or port > 65535:
            continue
        if ss:
            users = [(user["comm"], pid_of(user["pid"])) for user in _USER.finditer(ss["users"] or "")]
        else:
            users = [(match["comm"], pid_of(match["pid"] or ""))]
        pids = tuple(dict.fromkeys(pid for _, pid in users if pid is not None))
        comm = users[0][0] if users and pids else None
        yield Listener(segment.place, segment.cite(offset), match["address"], port, pids, comm)
    yield segment.coverage("listening ports", complete=False)


def _row(line: str) -> bool:
    return bool(_SS.match(line) or _NETSTAT.match(line))


LISTING = Listing(
    rows=rows,
    begins=lambda line: bool(_HEADINGS.match(line)) or _row(line),
    continues=lambda line: bool(_HEADINGS.match(line)) or _row(line),
    printed_by=lambda shown: shown.tool in ("ss", "netstat"),
)
