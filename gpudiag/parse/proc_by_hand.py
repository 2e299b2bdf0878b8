"""Files of ``/proc/PID`` that somebody printed by hand: status, stack, wchan, cmdline, and the list of descriptors.

The rows say that they are ``ps``'s, not ``proc``'s: a row from ``proc`` means that the whole folder was recorded, the
descriptors among it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpudiag.model import Handle, KernelStack, Process
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing, one_line
from gpudiag.parse.parsed import Row
from gpudiag.parse.procfs import joined_cmdline, parse_status, process, stack_frames
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of

_READERS = frozenset({"cat", "head", "tail", "grep", "egrep", "less", "more", "tr", "strings", "xargs"})
_STATUS = re.compile(r"[A-Z][A-Za-z_]{1,39}:(?:\s|\Z)")
_STATUS_TOP = re.compile(r"Name:\t\S")
_WCHAN = re.compile(r"[A-Za-z_][\w.]{0,100}\s*\Z")
_LINK = re.compile(r"l[rwx-]{9}[.+]?\s+\d{1,9}\s.{0,120}?\s(?P<fd>\d{1,9}) -> (?P<path>\S.*?)\s*\Z")
_FOLDER = re.compile(r"/proc/(?P<pid>\d{1,10})/fd/?:\s*\Z")
_TOTAL = re.compile(r"total \d{1,9}\s*\Z")


def pid_read(shown: Shown | None, name: str) -> int | None:
    """The one process whose file of this name the command reads."""
    if shown is None or shown.tool not in _READERS | {"ls"}:
        return None
    pattern = re.compile(rf"/proc/(\d{{1,10}})/(?:task/\d{{1,10}}/)?{name}/?\Z")
    found = {pid_of(match[1]) for word in shown.argv[1:] if (match := pattern.match(word))}
    return found.pop() if len(found) == 1 else None


def status_rows(segment: Segment) -> Iterator[Row]:
    """The process, from all lines of its status that are there."""
    text = "\n".join(segment.lines)
    status = parse_status(text)
    pid = pid_read(segment.shown, "status") or pid_of(status.get("Pid", ""))
    if pid is None or (status.get("Tgid") and status["Tgid"] != str(pid)):
        return
    yield replace(process(segment.place, pid, segment.cite(0), {"status": text}, None), text_from="ps")
    yield segment.coverage("process table", complete=False)


def stack_rows(segment: Segment) -> Iterator[Row]:
    """The frames, and the innermost as the place where the process is in the kernel."""
    pid = pid_read(segment.shown, "stack")
    frames = stack_frames(segment.lines)
    if pid is None or not frames:
        return
    yield KernelStack(segment.place, segment.cite(0), pid, frames)
    yield Process(segment.place, pid, segment.cite(0), "ps", wchan=frames[0].partition(" ")[0])
    yield segment.coverage("kernel stack", complete=False)


def wchan_rows(segment: Segment) -> Iterator[Row]:
    """The kernel function in which it waits; 0 means that it does not wait or that the reader may not know."""
    pid, name = pid_read(segment.shown, "wchan"), segment.lines[0].strip()
    if pid is not None:
        yield Process(segment.place, pid, segment.cite(0), "ps", wchan=None if name == "0" else name)
        yield segment.coverage("process table", complete=False)


def cmdline_rows(segment: Segment) -> Iterator[Row]:
    """The command line. A terminal swallows the NULs between the arguments; then it cannot be told where they end."""
    pid = pid_read(segment.shown, "cmdline")
    if pid is not None:
        line = joined_cmdline(segment.lines[0]).rstrip()
        yield Process(segment.place, pid, segment.cite(0), "ps", cmdline=line)
        yield segment.coverage("process table", complete=False)


def descriptor_rows(segment: Segment) -> Iterator[Row]:
    """A handle for each descriptor of a device."""
    pid = pid_read(segment.shown, "fd")
    seen: set[tuple[int, str]] = set()
    for offset, line in enumerate(segment.lines):
        if folder := _FOLDER.match(line):
            pid = pid_of(folder["pid"])
        match = _LINK.match(line)
        if match is None or pid is None or not match["path"].startswith("/dev/nvidia"):
            continue
        if (pid, match["path"]) not in seen:
            seen.add((pid, match["path"]))
            yield Handle(segment.place, pid, match["path"], "fd", segment.cite(offset))
    yield segment.coverage("open handles", complete=False)


def _lists_descriptors(shown: Shown) -> bool:
    return shown.tool == "ls" and any(re.match(r"/proc/[^/]{1,40}/fd", word) for word in shown.argv[1:])


def _separated(shown: Shown, line: str) -> bool:
    if pid_read(shown, "cmdline") is None or not line.strip():
        return False
    return "\0" in line or shown.reshaped or shown.tool in ("tr", "xargs")


STATUS = Listing(
    rows=status_rows,
    begins=lambda line: bool(_STATUS_TOP.match(line)),
    continues=lambda line: bool(_STATUS.match(line)),
    printed_by=lambda shown: pid_read(shown, "status") is not None,
    headless=lambda shown, line: pid_read(shown, "status") is not None and bool(_STATUS.match(line)),
)
STACK = Listing(
    rows=stack_rows,
    continues=lambda line: bool(stack_frames((line,))),
    printed_by=lambda shown: pid_read(shown, "stack") is not None,
    headless=lambda shown, line: pid_read(shown, "stack") is not None and bool(stack_frames((line,))),
)
WCHAN = Listing(
    rows=wchan_rows,
    continues=one_line,
    printed_by=lambda shown: pid_read(shown, "wchan") is not None,
    headless=lambda shown, line: pid_read(shown, "wchan") is not None and bool(_WCHAN.match(line) or line == "0"),
)
CMDLINE = Listing(
    rows=cmdline_rows,
    continues=one_line,
    printed_by=lambda shown: pid_read(shown, "cmdline") is not None,
    headless=_separated,
)
DESCRIPTORS = Listing(
    rows=descriptor_rows,
    continues=lambda line: bool(_LINK.match(line) or _FOLDER.match(line) or _TOTAL.match(line)) or not line.strip(),
    printed_by=_lists_descriptors,
    headless=lambda shown, line: (
        _lists_descriptors(shown) and bool(_LINK.match(line) or _FOLDER.match(line) or _TOTAL.match(line))
    ),
)
