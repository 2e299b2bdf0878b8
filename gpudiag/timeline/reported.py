"""Holders that nobody listed, but that a server's out-of-memory message names with their memory.

``Process 71 has 20.28 GiB memory in use``: PyTorch asks the driver and prints its answer. It counts where the newest
look has no list of its own and shows the process alive, and where nothing speaks for another process by that number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudiag.model import Booking, GpuRef, KillAction, LogEvent, Place, Process
from gpudiag.parse.parsed import Parsed
from gpudiag.timeline.order import Look

KIND = "reported"
"""``Booking.kind`` of such a row."""


def reported_bookings(parsed: Parsed, looks: Sequence[Look]) -> list[Booking]:
    """Rows for the newest look of each host, the last message about a process deciding."""
    found: list[Booking] = []
    for host in dict.fromkeys(look.host for look in looks):
        newest = [look for look in looks if look.host == host][-1]
        if not _has_list(parsed, newest):
            found += _bookings(parsed, newest, alone=len({look.host for look in looks}) == 1)
    return found


def _has_list(parsed: Parsed, look: Look) -> bool:
    listed = any(c.at.look == look.id and c.source == "compute processes" for c in parsed.coverage)
    return listed or any(row.at.look == look.id for row in parsed.bookings)


def _bookings(parsed: Parsed, look: Look, *, alone: bool) -> Iterator[Booking]:
    rows = {row.pid: row for row in parsed.processes if row.at.look == look.id and row.text_from in ("ps", "proc")}
    latest: dict[int, LogEvent] = {}
    for event in parsed.log_events:
        own = event.host == look.host or (alone and not event.host)
        if event.kind == "memory_in_use" and event.pid is not None and event.mib is not None and own:
            latest[event.pid] = event
    for pid, event in latest.items():
        row = rows.get(pid)
        if row is not None and row.state not in ("Z", "X") and _same_process(event, row, parsed.actions):
            place = Place(look.host, look.id, event.time_ns, event.time_error_ns)
            yield Booking(place, GpuRef(), pid, event.mib, None, None, KIND, event.cited)


def _same_process(event: LogEvent, row: Process, actions: Sequence[KillAction]) -> bool:
    """The message was printed in the same session before the table, with no command between; or the times fit."""
    if event.cited.member == row.cited.member and event.cited.input == row.cited.input:
        lines = (event.cited.line or 0, row.cited.line or 0)
        between = [
            a for a in actions if a.cited.input == event.cited.input and lines[0] < (a.cited.line or 0) < lines[1]
        ]
        return lines[0] < lines[1] and not between
    if event.time_ns is None or row.elapsed_s is None or row.at.time_ns is None:
        return False
    started = row.at.time_ns - round((row.elapsed_s + 1) * 1_000_000_000)
    return started <= event.time_ns - event.time_error_ns
