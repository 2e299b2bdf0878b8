"""The table that plain ``nvidia-smi`` prints, whole or cut anywhere.

Known shapes: process rows with and without the GI/CI columns (before driver 450), the heading of drivers from 610 on
(``KMD Version``, ``CUDA UMD Version``), MIG rows (not used: their memory is part of the GPU's).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from gpudiag.model import Booking, GpuReading, GpuRef, GpuSample, HostFact
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import bus_id, is_fault, is_non_value, kind_of, mib, percent, pid_of, shown_name, withheld
from gpudiag.shell.syntax import simple_commands

SHOWN_TIME = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\s*\Z")
NO_PROCESSES = "No running processes found"
DEAD = ("dead",)
"""The table has no row for a PID whose process is gone or a zombie; the CSV lists it."""

_VERSIONS = {
    "driver_version": re.compile(r"(?:Driver|KMD) Version\s*: ?\s*([\w.]{1,40})"),
    "nvidia_smi_version": re.compile(r"NVIDIA-SMI\s+([\d.]{3,40})"),
    "cuda_version": re.compile(r"CUDA (?:UMD )?Version\s*: ?\s*([\w.]{1,40})"),
}
_GPU = re.compile(r"\s*(\d{1,4})\s+(\S.{0,80}?)\s+(?:On|Off|N/A|Enabled|Disabled)\s*\Z")
_GPU_WDDM = re.compile(r"\s*(\d{1,4})\s+(\S.{0,80}?)\s+(?:WDDM|TCC|MCDM)\s*\Z")
_BUS = re.compile(r"\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s")
_PROCESS = re.compile(
    r"\|\s+(?P<gpu>\d{1,4})\s+(?:(?:N/A|\d{1,3})\s+(?:N/A|\d{1,3})\s+)?(?P<pid>\d{1,10})\s+"
    r"(?P<type>C\+G|M\+C|C|G|M)\s(?P<name>.*?)\s*(?P<memory>\d{1,12}\s?[KMG]iB|N/A)\s*\|\s*\Z"
)

_FIGURES = re.compile(
    r"\|\s*(?:\d{1,3}%|N/A|ERR!)\s+(?:\d{1,3}C|N/A|ERR!)\s+(?:P\d{1,2}\s+)?\S{1,12}\s*/\s*\S{1,12}\s*"
    r"\|\s*\d{1,12}\s?[KMG]iB\s*/\s*\d{1,12}\s?[KMG]iB\s*\|"
)
"""The second row of a GPU: fan, temperature, power and memory. A MIG device's row begins with numbers."""
_FILTERED = "a filter left lines of the table out"
_IN_EVERY_ROW = frozenset({"mib", "mib /", "mib.*mib", "mib.*/.*mib"})
"""Patterns, in lower case, that keep the memory row of every GPU."""


_LINE_CAP = 400
"""Characters; the table is some 90 wide."""


@dataclass
class _Progress:
    """How far a table has been read."""

    gpus: dict[int, GpuRef] = field(default_factory=lambda: dict[int, GpuRef]())
    pending: tuple[int, str] | None = None
    """Index and name of the GPU whose memory stands in the next row."""
    in_processes: bool = False
    body_closed: bool = False
    list_begun: bool = False
    list_closed: bool = False
    nobody: bool = False
    listed: int = 0
    next_bare: int | None = None
    """Index of the GPU whose memory row comes next without the row above it, where the order tells that."""


def begins(line: str) -> bool:
    """The line can only be a part of the table, or the clock above it."""
    return line.startswith(("+--", "| ", "|==", "|--")) or bool(SHOWN_TIME.match(line))


def continues(line: str) -> bool:
    """The line may stand inside the table."""
    return line.startswith(("+", "|")) or not line.strip()


def is_table(lines: tuple[str, ...]) -> bool:
    """At least one line of the table is there, not a lone clock."""
    return any(line.startswith(("|", "+")) for line in lines)


def rows(segment: Segment) -> Iterator[Row]:
    """Versions, clock, one sample a GPU, one booking a process row, and how far the table reached."""
    progress = _Progress(next_bare=_first_bare(segment))
    for offset, line in enumerate(segment.lines):
        yield from _line(segment, progress, offset, line)
    if progress.next_bare is not None and progress.gpus:
        yield segment.coverage("gpu memory")
    elif progress.gpus:
        whole = progress.list_begun or progress.body_closed
        yield segment.coverage("gpu memory", outcome="ok" if whole else "truncated", complete=whole)
    yield from _list_coverage(segment, progress)
    asked_plainly = segment.shown is None or len(segment.shown.argv) == 1
    if asked_plainly and progress.list_closed and any("NVIDIA-SMI" in line for line in segment.lines):
        lines = segment.lines
        while lines and not lines[-1].strip():
            lines = lines[:-1]
        whole = segment.printout("table", lines)
        if whole is not None:
            yield whole


def _line(segment: Segment, progress: _Progress, offset: int, line: str) -> Iterator[Row]:
    if SHOWN_TIME.match(line):
        yield HostFact(segment.place, "shown_time", line.strip(), segment.cite(offset))
    elif line.startswith("+"):
        _border(progress)
    elif "Processes:" in line:
        progress.in_processes = True
    elif line.startswith("|="):
        progress.list_begun = progress.in_processes
    elif NO_PROCESSES in line:
        progress.nobody = True
    elif "Version" in line and not progress.in_processes:
        yield from _versions(segment, offset, line)
    elif not progress.in_processes and (sample := _gpu_row(segment, progress, offset, line)):
        yield sample
        yield from _readings(segment, sample, offset, line)
    elif booking := _booking(segment, progress, offset, line):
        progress.listed += 1
        yield booking


def _border(progress: _Progress) -> None:
    if progress.list_begun or progress.listed or progress.nobody:
        progress.list_closed = True
    elif progress.gpus:
        progress.body_closed = True


def _versions(segment: Segment, offset: int, line: str) -> Iterator[Row]:
    for name, pattern in _VERSIONS.items():
        match = pattern.search(line)
        if match:
            yield HostFact(segment.place, name, match[1], segment.cite(offset))


def _gpu_row(segment: Segment, progress: _Progress, offset: int, line: str) -> GpuSample | None:
    cells = line.strip().strip("|").split("|")
    if len(cells) < 2:
        return None
    if progress.next_bare is not None and len(line) <= _LINE_CAP and _FIGURES.match(line):
        progress.gpus[progress.next_bare] = GpuRef(index=progress.next_bare)
        progress.pending = (progress.next_bare, "")
        progress.next_bare += 1
    gpu, bus = _GPU.match(cells[0]) or _GPU_WDDM.match(cells[0]), _BUS.match(cells[1])
    if gpu and bus:
        index = int(gpu[1])
        progress.gpus[index] = GpuRef(index=index, bus_id=bus_id(bus[1]))
        progress.pending = (index, gpu[2])
        progress.next_bare = None
        return None
    if progress.pending is None:
        return None
    index, name = progress.pending
    progress.pending = None
    used, slash, total = cells[1].partition("/")
    return GpuSample(
        at=segment.place,
        gpu=progress.gpus[index],
        used_mib=mib(used) if slash else None,
        total_mib=mib(total) if slash else None,
        reserved_mib=None,
        used_includes_reserve=False,
        name=name or None,
        cited=segment.cite(offset),
    )


def _first_bare(segment: Segment) -> int | None:
    """``nvidia-smi | grep MiB``: the index of the first GPU; the others follow in order, each with one row.

    ``None`` where the command is another: a filter may then have dropped a GPU, and the order would tell nothing.
    """
    shown = segment.shown
    if shown is None or shown.tool != "nvidia-smi" or shown.filters != ("grep",):
        return None
    commands = simple_commands(segment.exhibit.command or "")
    words_of_grep = next((after[1:] for one, after in pairwise(commands) if tuple(one) == shown.argv), list[str]())
    operands = [word for word in words_of_grep if not word.startswith("-")]
    options = [word for word in words_of_grep if word.startswith("-")]
    kept = len(operands) == 1 and operands[0].lower() in _IN_EVERY_ROW
    if not kept or any("v" in option or "m" in option for option in options):
        return None
    words = shown.argv[1:]
    if not words:
        return 0
    return int(words[1]) if len(words) == 2 and words[0] in ("-i", "--id") and words[1].isdecimal() else None


def _readings(segment: Segment, sample: GpuSample, offset: int, line: str) -> Iterator[GpuReading]:
    """The load, the words in place of the memory figure, and a cell that says that the GPU is in trouble."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    memory = cells[1].partition("/")[0].strip()
    load = cells[2].split(" ")[0] if len(cells) > 2 else ""
    found: list[tuple[str, float | None, str]] = []
    if sample.used_mib is None and is_non_value(memory):
        found.append(("memory.used", None, memory))
    if load and (percent(load) is not None or is_non_value(load)):
        found.append(("utilization.gpu", percent(load), load))
    if any(is_fault(cell) for cell in cells):
        found.append(("status", None, next(cell for cell in cells if is_fault(cell))))
    for field_name, value, words in found:
        shown = None if value is not None else words
        yield GpuReading(segment.place, sample.gpu, field_name, value, shown, segment.cite(offset))


def _booking(segment: Segment, progress: _Progress, offset: int, line: str) -> Booking | None:
    match = _PROCESS.match(line) if len(line) <= _LINE_CAP else None
    pid = pid_of(match["pid"]) if match else None
    if match is None or pid is None:
        return None
    index = int(match["gpu"])
    name, missing = shown_name(match["name"])
    return Booking(
        at=segment.place,
        gpu=progress.gpus.get(index, GpuRef(index=index)),
        pid=pid,
        mib=mib(match["memory"]),
        name=name,
        name_missing=missing,
        kind=kind_of(match["type"]),
        cited=segment.cite(offset),
        withheld=withheld(match["memory"]),
    )


def _list_coverage(segment: Segment, progress: _Progress) -> Iterator[Row]:
    if not progress.gpus and not progress.listed and not progress.nobody and not progress.in_processes:
        if any("Version" in line for line in segment.lines):
            because = "the table is cut before the first GPU"
            yield segment.coverage("gpu memory", outcome="truncated", because=because, complete=False)
            yield segment.coverage("compute processes", outcome="truncated", because=because, complete=False)
        return
    if progress.list_begun and (progress.list_closed or progress.nobody):
        yield segment.coverage("compute processes", complete=True, names_missing=DEAD)
        return
    yield segment.coverage(
        "compute processes",
        outcome="truncated",
        because="the table is cut before the end of the process list" if progress.next_bare is None else _FILTERED,
        complete=False,
        names_missing=DEAD,
    )
