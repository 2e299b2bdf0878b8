"""``top -b`` and what people paste from ``top`` and ``htop``.

htop shows threads as rows like processes; the memory columns of a thread are those of its process, digit by digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Process
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of, whole

_TOP_HEADING = re.compile(r"\s*PID\s+USER\s+PR\s+NI\s+VIRT\s+RES\s+SHR\s+S\s+%CPU\s+%MEM\s+TIME\+\s+COMMAND\s*\Z")
_TOP_SUMMARY = re.compile(
    r"top - \d\d:\d\d:\d\d |Tasks:\s+\d|%?Cpu\(?s?\)?\s?:|[KMGT]iB (?:Mem|Swap)\s*:|Threads:\s+\d"
)
_HTOP_HEADING = re.compile(
    r"\s*PID\s?[△▽]?\s+USER\s+PRI\s+NI\s+VIRT\s+RES\s+SHR\s+S\s+CPU%\s?[△▽]?\s*MEM%\s?[△▽]?\s+TIME\+\s+Command\s*\Z"
)
_ROW = re.compile(
    r"\s*(?P<pid>\d{1,10})\s+(?P<user>\S{1,64})\s+(?:rt|RT|-?\d{1,3})\s+-?\d{1,3}\s+(?P<memory>\S+\s+\S+\s+\S+)\s+"
    r"(?P<state>[RSDTtZXIW])\s+[\d.]{1,7}\s+[\d.]{1,6}\s+(?P<time>[\d:.h]{1,16})(?:\s+(?P<command>\S.*))?\Z"
)
_TREE = re.compile(r"(?:[│ ]{0,200}[├└]─ ?)")
_COMM_WIDTH = 15


def top_rows(segment: Segment) -> Iterator[Row]:
    """One process a row."""
    options = "".join(word for word in segment.shown.argv[1:] if word.startswith("-")) if segment.shown else None
    if options is not None and "H" in options:
        yield segment.coverage("process table", outcome="not_understood", because="a list of threads", complete=False)
        return
    for offset, line in enumerate(segment.lines):
        match = _ROW.match(line)
        if match and (pid := pid_of(match["pid"])) is not None:
            full = "c" in options if options else None
            yield _process(segment, offset, pid, match, full)
    yield segment.coverage("process table", complete=False)


def htop_rows(segment: Segment) -> Iterator[Row]:
    """One process a row; of rows of one owner with the same memory, which are threads of one process, the first PID."""
    kept: dict[tuple[str, str], tuple[int, int, re.Match[str]]] = {}
    for offset, line in enumerate(segment.lines):
        match = _ROW.match(line)
        pid = pid_of(match["pid"]) if match else None
        if match is None or pid is None:
            continue
        key = (match["user"], " ".join(match["memory"].split()))
        if key not in kept or pid < kept[key][1]:
            kept[key] = (offset, pid, match)
    for offset, pid, match in kept.values():
        yield _process(segment, offset, pid, match, True)
    yield segment.coverage("process table", complete=False)


def _process(segment: Segment, offset: int, pid: int, match: re.Match[str], full: bool | None) -> Process:
    text = _TREE.sub("", match["command"] or "", count=1).rstrip()
    is_line = full if full is not None else len(text.rstrip("+")) > _COMM_WIDTH or "/" in text
    user, uid = match["user"], whole(match["user"])
    return Process(
        at=segment.place,
        pid=pid,
        cited=segment.cite(offset),
        text_from="ps",
        user=None if uid is not None or user.endswith("+") else user,
        uid=0 if user == "root" else uid,
        state=match["state"],
        comm=None if is_line or not text else text.removesuffix("+"),
        comm_cut=text.endswith("+"),
        cmdline=text or None if is_line else None,
        cmdline_cut=is_line,
    )


def _continues(line: str) -> bool:
    return bool(not line.strip() or _ROW.match(line) or _TOP_SUMMARY.match(line) or _TOP_HEADING.match(line))


TOP = Listing(
    rows=top_rows,
    begins=lambda line: bool(_TOP_HEADING.match(line) or line.startswith("top - ")),
    continues=_continues,
    printed_by=lambda shown: shown.tool == "top",
    headless=lambda shown, line: shown.tool == "top" and bool(_ROW.match(line)),
)
HTOP = Listing(
    rows=htop_rows,
    begins=lambda line: bool(_HTOP_HEADING.match(line)),
    continues=lambda line: bool(_ROW.match(line)),
    printed_by=lambda shown: shown.tool == "htop",
)
