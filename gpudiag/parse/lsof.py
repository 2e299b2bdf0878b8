"""``lsof`` on device files: who has them open (a descriptor) or mapped (``mem``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Handle, Process
from gpudiag.parse.commands import Shown
from gpudiag.parse.fuser import asks_for_all
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.rights import ran_as_root
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of, whole

_HEADING = re.compile(
    r"COMMAND\s+PID\s+(?:TID\s+(?:TASKCMD\s+)?)?USER\s+FD\s+TYPE\s+DEVICE\s+SIZE(?:/OFF)?\s+NODE\s+NAME\s*\Z"
)
_ROW = re.compile(
    r"(?P<comm>\S{1,64})\s+(?P<pid>\d{1,10})\s+(?:\d{1,10}\s+\S{1,32}\s+)?(?P<user>\S{1,64})\s+"
    r"(?P<fd>\d{1,7}[a-zA-Z-]{0,3}|mem|cwd|rtd|txt|DEL|NOFD|err|ltx)\s+(?P<type>[A-Za-z0-9]{2,10})\s+\S.{0,200}?"
    r"(?P<path>\s/\S.{0,400}?)\s*\Z"
)
_DEVICE = "/dev/nvidia"
_COMM_WIDTH = 9
"""lsof shows nine characters of a command unless it is told otherwise (``+c``)."""


def rows(segment: Segment) -> Iterator[Row]:
    """A handle for each device that a process has open or mapped, one process a PID."""
    processes: dict[int, Process] = {}
    seen: set[tuple[int, str, str]] = set()
    for offset, line in enumerate(segment.lines):
        match = _ROW.match(line)
        pid = pid_of(match["pid"]) if match else None
        path = match["path"].strip().partition(" ")[0] if match else ""
        if match is None or pid is None or not path.startswith(_DEVICE):
            continue
        how = "map" if match["fd"] in ("mem", "DEL") else "fd"
        if (pid, path, how) not in seen:
            seen.add((pid, path, how))
            yield Handle(segment.place, pid, path, how, segment.cite(offset))
        processes.setdefault(pid, _process(segment, offset, pid, match))
    yield from processes.values()
    yield from coverage(segment)


def coverage(segment: Segment) -> Iterator[Row]:
    """All device files, or a part of them."""
    complete = asks_for_all(segment.shown)
    yield segment.coverage(
        "open handles", complete=complete, as_root=ran_as_root(segment, "lsof"), names_missing=("zombie",)
    )


def _process(segment: Segment, offset: int, pid: int, match: re.Match[str]) -> Process:
    user, uid = match["user"], whole(match["user"])
    return Process(
        at=segment.place,
        pid=pid,
        cited=segment.cite(offset),
        text_from="fuser",
        user=None if uid is not None else user,
        uid=0 if user == "root" else uid,
        comm=match["comm"].replace("\\x20", " "),
        comm_cut=len(match["comm"]) >= _COMM_WIDTH,
    )


def terse_rows(segment: Segment) -> Iterator[Row]:
    """``lsof -t FILE``: PIDs, one a line."""
    shown = segment.shown
    paths = [word for word in shown.argv[1:] if word.startswith(_DEVICE)] if shown is not None else []
    for offset, line in enumerate(segment.lines):
        pid = pid_of(line)
        if pid is not None and len(paths) == 1 and not set(paths[0]) & set("*?["):
            yield Handle(segment.place, pid, paths[0], "open", segment.cite(offset))
    yield from coverage(segment)


def _terse(shown: Shown) -> bool:
    return shown.tool == "lsof" and any(re.fullmatch(r"-[a-zA-Z]*t[a-zA-Z]*", word) for word in shown.argv[1:])


LISTING = Listing(
    rows=rows,
    begins=lambda line: bool(_HEADING.match(line)),
    continues=lambda line: bool(_ROW.match(line)),
    printed_by=lambda shown: shown.tool == "lsof" and not _terse(shown),
    headless=lambda shown, line: shown.tool == "lsof" and not _terse(shown) and bool(_ROW.match(line)),
)
TERSE = Listing(
    rows=terse_rows,
    continues=lambda line: pid_of(line) is not None,
    printed_by=_terse,
    headless=lambda shown, line: _terse(shown) and not shown.reshaped and pid_of(line) is not None,
)
