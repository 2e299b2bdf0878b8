"""``nvitop -1``: nvidia-smi's table in box drawing characters, with a process list of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Booking, GpuRef, GpuSample, HostFact
from gpudiag.parse.listing import Listing
from gpudiag.parse.nvidia_smi_table import NO_PROCESSES
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import bus_id, kind_of, mib, pid_of

_EDGES = ("│", "╒", "╞", "├", "╘", "╕")
_LINE_CAP = 400
_VERSION = re.compile(
    r"│ NVITOP \S{1,20}\s+Driver Version: ([\w.]{1,20})(?:\s+CUDA (?:Driver )?Version: ([\w.]{1,20}))?"
)
_GPU = re.compile(r"│\s+(\d{1,4})\s+(\S.{0,60}?)\s+(?:On|Off|N/A|WDDM|TCC)\s*\Z")
_BUS = re.compile(r"\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s")
_PROCESS = re.compile(
    r"│\s+(?P<gpu>\d{1,4})\s+(?P<pid>\d{1,10})\s+(?P<kind>C|G|X|M|M\+C|C\+G)\s+\S{1,32}\s+"
    r"(?P<size>[\d.]{1,12}[KMGT]?i?B|(?:WDDM:)?N/A)\s+(?P<rest>\S.*?)\s*│"
)
_HEADING = re.compile(r"│\s+GPU\s+PID\s+USER\s+GPU-MEM\s+(.{1,120}?)\s+COMMAND\s")
_GONE = "No Such Process"


def rows(segment: Segment) -> Iterator[Row]:
    """One sample a GPU, one booking a process row."""
    at = next((n for n, line in enumerate(segment.lines) if "Processes:" in line), len(segment.lines))
    gpus: dict[int, GpuRef] = {}
    yield from _devices(segment, at, gpus)
    if gpus:
        yield segment.coverage("gpu memory", complete=not _chosen(segment))
    if at == len(segment.lines):
        return
    figures, complete = 4, False
    for offset in range(at, len(segment.lines)):
        line = segment.lines[offset][:_LINE_CAP]
        if heading := _HEADING.match(line):
            figures = len(heading[1].split())
        complete = complete or NO_PROCESSES in line or line.startswith("╘")
        booking = _booking(segment, gpus, offset, line, figures)
        if booking is not None:
            yield booking
    outcome = "ok" if complete else "truncated"
    because = None if complete else "the table is cut before the end of the process list"
    whole = complete and not _chosen(segment)
    yield segment.coverage("compute processes", outcome=outcome, because=because, complete=whole)


def _devices(segment: Segment, end: int, gpus: dict[int, GpuRef]) -> Iterator[Row]:
    """The upper table; a GPU takes two rows, its memory stands in the second."""
    pending: tuple[int, str] | None = None
    for offset in range(end):
        line = segment.lines[offset][:_LINE_CAP]
        if version := _VERSION.match(line):
            for name, value in zip(("driver_version", "cuda_version"), version.groups(), strict=True):
                if value:
                    yield HostFact(segment.place, name, value, segment.cite(offset))
            continue
        cells = line.split("│")
        if len(cells) < 3:
            continue
        gpu, bus = _GPU.match(f"│{cells[1]}"), _BUS.match(cells[2])
        if gpu and bus:
            pending = (int(gpu[1]), gpu[2])
            gpus[pending[0]] = GpuRef(index=pending[0], bus_id=bus_id(bus[1]))
        elif pending is not None:
            used, slash, total = cells[2].partition("/")
            sizes = (mib(used), mib(total)) if slash else (None, None)
            yield GpuSample(segment.place, gpus[pending[0]], *sizes, None, False, pending[1], segment.cite(offset))
            pending = None


def _booking(segment: Segment, gpus: dict[int, GpuRef], offset: int, line: str, figures: int) -> Booking | None:
    """A process row; ``figures`` is the number of columns between memory and command, the time the last of them."""
    match = _PROCESS.match(line)
    pid = pid_of(match["pid"]) if match else None
    if match is None or pid is None:
        return None
    words = match["rest"].split(None, figures + 1)
    before = figures + (words[figures : figures + 1] == ["days"])
    parts = match["rest"].split(None, before)
    name = parts[before] if len(parts) > before else None
    gone = name == _GONE
    index = int(match["gpu"])
    return Booking(
        at=segment.place,
        gpu=gpus.get(index, GpuRef(index=index)),
        pid=pid,
        mib=mib(match["size"]),
        name=None if gone else name,
        name_missing=_GONE if gone else None,
        kind="compute" if match["kind"] == "X" else kind_of(match["kind"]),
        cited=segment.cite(offset),
    )


def _chosen(segment: Segment) -> bool:
    """Only some GPUs, users or kinds of process were asked for."""
    shown = segment.shown
    return shown is not None and (shown.filtered or len([word for word in shown.argv[1:] if word != "-1"]) > 0)


LISTING = Listing(
    rows=rows,
    begins=lambda line: line.startswith("╒══"),
    continues=lambda line: line.startswith((*_EDGES, "[ CPU:", "[ MEM:")) or not line.strip(),
    printed_by=lambda shown: shown.tool == "nvitop",
)
