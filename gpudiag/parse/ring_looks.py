"""Rows of a look that is recalled from a flight recorder's ring, and of device memory over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpudiag.model import Citation, Coverage, Handle, Place, Process
from gpudiag.parse.jsontext import JsonText, integer, items, mapping, text_of
from gpudiag.parse.nvml_json import gpu_rows
from gpudiag.parse.parsed import Row
from gpudiag.parse.procfs import joined_cmdline
from gpudiag.parse.ring_state import Line, State, Told
from gpudiag.parse.source import QUOTE_CAP, Segment

_ERROR_NS = 10_000_000
_PATHS_CAP = 64


def look_rows(segment: Segment, state: State, look: str, tick: Line) -> Iterator[Row]:
    """The state of the machine at one tick."""
    at = Place(segment.exhibit.host, look, tick.time_ns, _ERROR_NS)
    cited = _cite(segment, tick.offset)
    as_root = integer(state.header.get("uid")) == 0
    for told in state.processes.values():
        yield from _process(segment, at, told)
    yield Coverage(at, "process table", "ok", None, cited, complete=True, as_root=as_root)
    for line in state.gpus.values():
        yield from _gpu(segment, at, line)
    if state.gpus:
        yield Coverage(at, "gpu memory", "ok", None, cited, complete=True)
        yield Coverage(at, "compute processes", "ok", None, cited, complete=True)


def sample_rows(segment: Segment, lines: Iterable[Line]) -> Iterator[Row]:
    """Memory over time, which belongs to no look. The lists that matter are those of the looks."""
    for line in lines:
        if line.time_ns is not None:
            at = Place(segment.exhibit.host, None, line.time_ns, _ERROR_NS)
            # The figure is the first row; the others repeat lists and names.
            yield next(_gpu(segment, at, line))


def _gpu(segment: Segment, at: Place, line: Line) -> Iterator[Row]:
    text = segment.lines[line.offset]
    only = replace(segment, start=segment.start + line.offset, lines=(text,))
    document = JsonText(text)
    yield from gpu_rows(only, document, at, mapping(line.values.get("gpu")), None, 0)


def _process(segment: Segment, at: Place, told: Told) -> Iterator[Row]:
    values = told.values
    cited = _cite(segment, told.offset)
    cmdline = text_of(values.get("cmdline"))
    state = text_of(values.get("state"))
    kernel = values.get("kernel") is True
    yield Process(
        at=at,
        pid=told.pid,
        cited=cited,
        text_from="proc",
        ppid=integer(values.get("ppid")),
        pgid=integer(values.get("pgid")),
        sid=integer(values.get("sid")),
        user="root" if integer(values.get("uid")) == 0 else None,
        uid=integer(values.get("uid")),
        state=state,
        threads=integer(values.get("threads")),
        start_ticks=told.start,
        comm=text_of(values.get("comm")),
        cmdline="" if state == "Z" or kernel else None if cmdline is None else joined_cmdline(cmdline),
        cmdline_cut=values.get("cut") is True,
        kernel_thread=kernel,
        sig_blocked=_mask(values.get("sigblk")),
        sig_ignored=_mask(values.get("sigign")),
        sig_caught=_mask(values.get("sigcgt")),
        cgroup=text_of(values.get("cgroup")),
        ns_pids=tuple(pid for pid in map(integer, items(values.get("nspid"))) if pid is not None),
    )
    for how, key in (("fd", "fds"), ("map", "maps")):
        for path in items(values.get(key))[:_PATHS_CAP]:
            if isinstance(path, str):
                yield Handle(at, told.pid, path, how, cited)


def _mask(value: object) -> int | None:
    try:
        return int(value, 16) if isinstance(value, str) and len(value) <= 32 else None
    except ValueError:
        return None


def _cite(segment: Segment, offset: int) -> Citation:
    line = segment.exhibit.first_line + segment.start + offset
    return Citation(segment.exhibit.input, segment.exhibit.member, line, segment.lines[offset][:QUOTE_CAP])
