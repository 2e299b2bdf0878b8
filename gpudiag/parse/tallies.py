"""``ps -o ppid,user,comm -p $(fuser DEVICE) | sort | uniq -c``: one line that counts all users of a device is of each.

With a hundred workers people count instead of listing. If the count is the number of PIDs that ``fuser`` printed for
this device in the same look, and there is one kind only, every one of them is of that kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, Handle, Process
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import QUOTE_CAP, place_of
from gpudiag.parse.values import pid_of, whole

_TALLY = re.compile(
    r"(?:sudo\s+)?ps\s+-o\s*(?P<columns>[a-z]{2,8}(?:,[a-z]{2,8}){0,3})\s+-p\s+\"?\$\((?:sudo\s+)?fuser\s+"
    r"(?P<device>/dev/nvidia\w{0,16})(?:[^\w/][^()]{0,200})?\)\"?\s*\|\s*sort\s*\|\s*uniq\s+-c\s*(?:\|\s*sort\s+-\w+\s*)?\Z"
)
_HEADINGS = {"ppid": "PPID", "user": "USER", "comm": "COMMAND"}


def rows(exhibit: Exhibit, before: Sequence[Row]) -> Iterator[Process]:
    """A process for each PID that ``before`` (rows of the same input) shows with the device open."""
    typed = _TALLY.match((exhibit.command or "").strip())
    columns = typed["columns"].split(",") if typed is not None else []
    if typed is None or not set(columns) <= _HEADINGS.keys():
        return
    kinds = [(number, line.split()) for number, line in enumerate(exhibit.text.split("\n")) if line.strip()]
    heading = ["1", *(_HEADINGS[name] for name in columns)]
    counted = [(number, words) for number, words in kinds if words != heading]
    if len(kinds) != 2 or len(counted) != 1 or len(counted[0][1]) != len(heading):
        return
    number, words = counted[0]
    place = place_of(exhibit)
    pids = {row.pid for row in before if isinstance(row, Handle) and row.path == typed["device"] and row.at == place}
    if whole(words[0]) != len(pids):
        return
    shown = dict(zip(columns, words[1:], strict=True))
    line = exhibit.text.split("\n")[number][:QUOTE_CAP]
    cited = Citation(exhibit.input, exhibit.member, exhibit.first_line + number, line)
    user = shown.get("user")
    for pid in sorted(pids):
        yield Process(
            at=place,
            pid=pid,
            cited=cited,
            text_from="ps",
            ppid=pid_of(shown.get("ppid", "")),
            user=None if user is None or user.isdecimal() or user.endswith("+") else user,
            comm=shown.get("comm"),
        )
