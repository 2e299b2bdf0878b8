"""``proc.json``: raw texts of ``/proc/PID`` and the device files that each process has open or mapped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpudiag.model import Citation, Handle, KernelStack
from gpudiag.parse.jsontext import JsonText, integer, items, mapping, text_of
from gpudiag.parse.parsed import Row
from gpudiag.parse.procfs import parse_stat, process, stack_frames
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of

_DEAD = ("Z", "X", "x")
_VARIABLES_CAP, _VALUE_CAP = 200, 2000


def rows(segment: Segment) -> Iterator[Row]:
    """One process a PID, one handle a device file and way of holding it."""
    document = JsonText("\n".join(segment.lines))
    if document.problem:
        yield segment.damage(0, document.problem)
    found = False
    handles = False
    offset = 0
    for key, value in mapping(document.value).items():
        pid = pid_of(key)
        record = mapping(value)
        if pid is None or not record:
            continue
        found = True
        handles = handles or "nvidia_fds" in record
        offset = document.find(f'"{key}"', offset)
        yield from _one(segment, segment.cite_json(document, offset), pid, record)
    if document.value is None and not found:
        yield segment.coverage("process table", outcome="not_understood", because=document.problem)
        return
    # The record holds processes of interest only, and no descriptors of single threads.
    yield segment.coverage("process table", complete=False)
    scan = mapping(mapping(document.value).get("scan"))
    denied = integer(scan.get("denied"))
    if handles and not denied:
        yield segment.coverage("open handles", complete=None)
    elif handles:
        # Where they were read and where not, a record does not tell.
        words = f"{denied} processes could not be looked into"
        yield segment.coverage("open handles", complete=None, outcome="denied", because=words)
    limited = bool(denied or items(scan.get("did_not_return")) or scan.get("hidden") is True)
    if scan and not limited:
        # Not only these processes were looked into but all, threads of dead leaders included.
        yield segment.coverage("open handles", complete=True, as_root=scan.get("root") is True)


def _one(segment: Segment, cited: Citation, pid: int, record: Mapping[str, object]) -> Iterator[Row]:
    texts = {name: value for name, value in record.items() if isinstance(value, str)}
    row = process(segment.place, pid, cited, texts, _live_threads(mapping(record.get("tasks"))))
    yield replace(row, environ=_environ(mapping(record.get("environ"))))
    if frames := stack_frames(texts.get("stack", "").split("\n")):
        yield KernelStack(segment.place, cited, pid, frames)
    opened = dict.fromkeys(path for path in map(text_of, mapping(record.get("nvidia_fds")).values()) if path)
    mapped = dict.fromkeys(path for path in map(text_of, items(record.get("nvidia_maps"))) if path)
    for how, paths in (("fd", opened), ("map", mapped)):
        for path in paths:
            yield Handle(segment.place, pid, path, how, cited)


def _environ(variables: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    found = ((name, text_of(value)) for name, value in variables.items())
    return tuple((name, value[:_VALUE_CAP]) for name, value in found if value is not None)[:_VARIABLES_CAP]


def _live_threads(tasks: Mapping[str, object]) -> int | None:
    """Threads that are not dead; the leader counts even when it is a zombie, as in ``Threads`` of ``status``."""
    stats = [parse_stat(text) for text in map(text_of, tasks.values()) if text]
    if not stats:
        return None
    return max(1, sum(1 for stat in stats if stat and stat.state not in _DEAD))
