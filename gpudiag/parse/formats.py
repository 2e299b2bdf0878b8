"""Which parser reads an exhibit: its command decides, else its file name, else its content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Coverage, Damage
from gpudiag.parse import (
    host_facts,
    inquiries,
    interrupts,
    kill_commands,
    leftover,
    list_words,
    log_scan,
    nvml_json,
    pid_files,
    probes,
    proc_json,
    process_events,
    server_log,
    silence,
    trace,
    trace_clock,
)
from gpudiag.parse.jsontext import JsonText, items, mapping
from gpudiag.parse.parsed import Row
from gpudiag.parse.segments import cut
from gpudiag.parse.source import Segment, place_of

_Reader = Callable[[Segment], Iterator[Row]]

_BY_NAME: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (re.compile(r"nvml(-series)?\.json"), nvml_json.rows),
    (re.compile(r"proc\.json"), proc_json.rows),
    (re.compile(r"kill-commands\.json|command-begun\.json"), kill_commands.rows),
    (re.compile(r"trace-clock\.json"), trace_clock.rows),
    (re.compile(r"trace.*\.txt"), trace.rows),
    (re.compile(r"process-events\.jsonl"), process_events.rows),
    (re.compile(r"host\.txt|supervisors\.txt"), host_facts.rows),
)
_TEXT_CAP = 16 * 1024 * 1024
"""Characters that are cut into lines; logs are not, and have no limit but that of reading."""
_EVENT_FORMAT = re.compile(r"name: \w+\nID: \d+\nformat:\n")
"""A tracefs ``format`` file describes events; it holds none."""
_TRACE_HEAD = re.compile(r"# tracer: \w+")


def rows(exhibit: Exhibit) -> Iterator[Row]:
    """Everything that one exhibit tells."""
    if is_searched(exhibit):
        yield from log_scan.rows(exhibit)
        return
    roles = list(server_log.roles(exhibit))
    yield from roles
    if _EVENT_FORMAT.match(exhibit.text):
        return
    if len(exhibit.text) > _TEXT_CAP:
        yield Damage(exhibit.input, exhibit.member, None, f"only the first {_TEXT_CAP >> 20} MiB were parsed")
        because = f"only its first {_TEXT_CAP >> 20} MiB were parsed"
        end = exhibit.text.rfind("\n", 0, _TEXT_CAP) + 1 or _TEXT_CAP
        cut_off = replace(exhibit, text=exhibit.text[:end])
        yield from (as_truncated(row, because) for row in _of_text(cut_off, roles))
        return
    yield from _of_text(exhibit, roles)


def is_searched(exhibit: Exhibit) -> bool:
    """It is a log, of any length, in which lines are looked for."""
    return exhibit.path is not None or exhibit.member.endswith(".log")


def as_truncated(row: Row, because: str) -> Row:
    """A table that was cut covers its class no more, whatever it looks like."""
    if not isinstance(row, Coverage) or row.outcome != "ok":
        return row
    return replace(row, outcome="truncated", because=because, complete=False)


def _of_text(exhibit: Exhibit, roles: Sequence[Row]) -> Iterator[Row]:
    reader = _whole(exhibit)
    if reader is not None:
        lines = tuple(exhibit.text.split("\n"))
        yield from reader(Segment(exhibit, place_of(exhibit), 0, lines, None))
        return
    pieces = cut(exhibit)
    read = [row for piece in pieces.cuts for row in piece.rows()]
    read += silence.rows(exhibit, pieces)
    read += silence.kernel_log(exhibit)
    read += probes.rows(exhibit, pieces)
    read += inquiries.rows(exhibit, pieces)
    read += interrupts.rows(exhibit, pieces)
    read += list_words.rows(exhibit, pieces)
    read += pid_files.rows(exhibit, pieces)
    yield from read
    if exhibit.command is None and not pieces.cuts and not roles and pieces.unclaimed:
        yield Damage(exhibit.input, exhibit.member, exhibit.first_line, "not in a known format; nothing was read")
    else:
        yield from leftover.rows(exhibit, pieces, (*roles, *read))


def _whole(exhibit: Exhibit) -> _Reader | None:
    """The parser of a file that is of one format from end to end."""
    if exhibit.command is not None:
        return None
    name = exhibit.member.rpartition("/")[2]
    for pattern, reader in _BY_NAME:
        if pattern.fullmatch(name):
            return reader
    head = exhibit.text.lstrip()[:1]
    if head in ("{", "["):
        return _json(exhibit)
    first = exhibit.text.lstrip("\n").partition("\n")[0]
    return trace.rows if _TRACE_HEAD.match(first) or trace.LINE.match(first[:1000]) else None


def _json(exhibit: Exhibit) -> _Reader | None:
    """JSON under another name: its keys tell what it is."""
    value = JsonText(exhibit.text).value
    first = mapping(items(value)[0]) if items(value) else mapping(value)
    if "gpus" in first:
        return nvml_json.rows
    if "argv" in first or "cmd" in first:
        return kill_commands.rows
    if "boot" in first and "wall" in first:
        return trace_clock.rows
    return proc_json.rows if first and all(key.isdecimal() for key in first) else None
