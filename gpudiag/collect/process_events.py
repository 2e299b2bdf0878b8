"""``process-events.jsonl``: who began, what it became and how it ended, where no kernel trace can be used.

Over netlink, if that is allowed; else by looking through /proc over and over, which misses what is shorter than a round
and does not tell how anything ended. Neither tells who sent a signal. The first row says which of the two it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

from gpudiag.collect.child import told_to_end
from gpudiag.collect.machine import Machine
from gpudiag.collect.netlink import EXEC, EXIT, FORK, Event, Listener
from gpudiag.collect.source import Ended, Out, Source

MEMBER = "process-events.jsonl"
NETLINK, POLLING = "netlink", "polling"
EVERY_S = 0.02
"""Between two rounds through /proc, at least."""
_SHARE = 10
"""A round is followed by a rest so many times as long as it."""
_WAIT_S = 0.03
_IN_HASTE = -20
_YOUNG_CAP = 500
"""Of processes that began since, so many (the youngest) are asked in every round what they are."""
_PARENT, _START = 1, 19
"""Positions behind the closing bracket of comm in ``stat``."""


def source(machine: Machine, longest_s: float) -> Source:
    """Records until it is told to end. Its first row says that it has begun."""
    return Source(
        "process events",
        MEMBER,
        longest_s,
        produce=lambda out: produce(machine, out),
        evidence="process events",
        listens=True,
    )


def produce(machine: Machine, out: Out) -> None:
    """Record until a line comes or the recorder is gone."""
    try:
        listener = Listener()
    except Ended as end:
        _poll(machine.proc, out, end.because)
    else:
        _listen(listener, machine.proc, out)


def way_of(text: bytes) -> str | None:
    """``netlink`` or ``polling``, from the beginning of what was written."""
    head, found, _ = text.partition(b"\n")
    return json.loads(head)["way"] if found else None


def _listen(listener: Listener, proc: str, out: Out) -> None:
    names = {pid: _comm(proc, pid) or "" for pid in _pids(proc)}
    with contextlib.suppress(OSError):  # What a process became is asked while it is there, so there is haste.
        os.setpriority(os.PRIO_PROCESS, 0, _IN_HASTE)
    out.line(json.dumps({"way": NETLINK}))
    ending = False
    try:
        while True:
            events = listener.events(_WAIT_S)
            for event in events:
                row = _row(event, proc, names)
                if row is not None:
                    out.line(json.dumps(row))
            if ending and not events:
                break
            ending = ending or told_to_end(0)
    finally:
        listener.close()
    if listener.lost is not None:
        raise Ended("truncated", listener.lost)


def _row(event: Event, proc: str, names: dict[int, str]) -> dict[str, object] | None:
    """Of processes; threads are left out."""
    # The boot clock goes on while the machine sleeps, the other does not; it does not sleep meanwhile.
    ahead = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    row: dict[str, object] = {"what": event.what, "boot": round(event.monotonic_ns / 1e9 + ahead, 6)}
    if event.what == FORK and event.child == event.child_process:
        names[event.child or 0] = name = names.get(event.process, "")
        return {**row, "pid": event.process, "child": event.child, "comm": name}
    if event.what == EXEC:
        # Asked at once. It may be over already: then what it became is not known.
        name = _comm(proc, event.process)
        names[event.process] = name or ""
        return {**row, "pid": event.process, "comm": name}
    if event.what == EXIT and event.pid == event.process:
        return {**row, "pid": event.pid, "comm": names.pop(event.pid, ""), "status": event.status}
    return None


class _Seen(NamedTuple):
    """A process in one round."""

    parent: int
    comm: str
    start_ticks: int


def _poll(proc: str, out: Out, because: str) -> None:
    out.line(json.dumps({"way": POLLING, "because": because, "every_s": EVERY_S}))
    known = {pid: seen for pid in _pids(proc) if (seen := _seen(proc, pid)) is not None}
    young: list[int] = []
    while True:
        begun = time.monotonic()
        ending = told_to_end(0)
        for row in _round(proc, known, young):
            out.line(json.dumps(row))
        if ending:
            return
        told_to_end(max(EVERY_S, _SHARE * (time.monotonic() - begun)))


def _round(proc: str, known: dict[int, _Seen], young: list[int]) -> list[dict[str, object]]:
    """What is different now. ``known`` and ``young`` are brought up to date."""
    now = {"boot": round(time.clock_gettime(time.CLOCK_BOOTTIME), 6)}
    there = set(_pids(proc))
    rows: list[dict[str, object]] = [
        {"what": EXIT, **now, "pid": pid, "comm": known.pop(pid).comm, "status": None}
        for pid in sorted(known.keys() - there)
    ]
    young[:] = [pid for pid in young if pid in known][-_YOUNG_CAP:]
    for pid in sorted(there - known.keys()):
        seen = _seen(proc, pid)
        if seen is None:
            continue
        above = known.get(seen.parent)
        rows.append({"what": FORK, **now, "pid": seen.parent, "child": pid, "comm": above.comm if above else ""})
        known[pid] = seen
        young.append(pid)
        if above is None or above.comm != seen.comm:
            rows.append({"what": EXEC, **now, "pid": pid, "comm": seen.comm})
    for pid in young:
        comm = _comm(proc, pid)
        if comm is not None and comm != known[pid].comm:
            known[pid] = known[pid]._replace(comm=comm)
            rows.append({"what": EXEC, **now, "pid": pid, "comm": comm})
    return rows


def _pids(proc: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]  # noqa: PTH208 - names
    except OSError:
        return []


def _seen(proc: str, pid: int) -> _Seen | None:
    try:
        text = Path(f"{proc}/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rfind(")") + 1 :].split()
    if len(fields) <= _START:
        return None
    return _Seen(int(fields[_PARENT]), text[text.find("(") + 1 : text.rfind(")")], int(fields[_START]))


def _comm(proc: str, pid: int) -> str | None:
    try:
        return Path(f"{proc}/{pid}/comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError:
        return None
