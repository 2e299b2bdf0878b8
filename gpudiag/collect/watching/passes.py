"""The child that looks at processes: who is new and who is gone every second, the others now and then.

A whole pass over ``/proc`` costs as much as a minute of this may. So a process is read when it is new, in full at ages
of 1, 4, 16 and 64 seconds, in which programs start others, open devices and change their titles, and then every ten
minutes; who has a device, and whoever started him, every second, as far as a state, a name and a parent go.
"""

from __future__ import annotations

import gc
import heapq
import os
import select
import time
from collections.abc import Iterable
from typing import NamedTuple

from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended, Out
from gpudiag.collect.watching.events import Connector, Event
from gpudiag.collect.watching.known import Row, line, noted_listed
from gpudiag.collect.watching.reading import QUIET, Reader, Stat

_LAST_AGE_S = 64.0
_OLDER = 4
_AGAIN_S = 600.0
_LISTED_AGAIN_S = 10.0
"""Where the kernel tells who comes and goes, the list of all processes is only there to check."""
_READS_CAP = 200
"""Programs that are read in one second because they have just started; more are a flood, and the pass will do."""
_FIRST_PART = 200
"""Processes of the first pass after which it is said that it goes on."""
_ANCESTORS = 8
_TELLING = (
    *("kill", "fuser", "docker", "podman", "nerdctl", "crictl", "systemctl", "service", "kubectl", "helm", "scancel"),
    *("qdel", "ray", "supervisorctl", "pm2", "tmux", "screen", "lxc", "virsh", "nvidia-smi", "reboot", "shutdown"),
    "poweroff",
)
"""Programs that end others. It is a first look; who takes the ring along reads the words."""
_KTHREADD = 2


class Given(NamedTuple):
    """What the recorder gives to a child."""

    about: memoryview
    """Shared memory. In the first four bytes the child notes the PID of a process while a read may hang; behind them
    the recorder notes the PIDs in NVML's lists (``note_listed``)."""
    spared: frozenset[int]
    """Processes for which reads did hang."""
    known: dict[int, Row]
    """What the ring has already."""


class _Entry:
    """What is remembered of a process."""

    __slots__ = ("age", "kernel", "read_s", "row", "start")

    def __init__(self, start: int, kernel: bool, row: Row) -> None:
        self.start = start
        self.kernel = kernel
        self.row = row
        self.read_s = time.time()
        """When it was read last."""
        self.age = 1.0
        """Seconds until it is read again."""


def follow(machine: Machine, out: Out, every_s: float, given: Given) -> None:
    """Write the ring's lines until the pipe closes: those of a second at once, then an empty one."""
    try:
        events: Connector | None = Connector()
        why = None
    except OSError as error:
        events, why = None, error.strerror or str(error)
    passes = Passes(machine, out, given)
    passes.say({"is": "events", "because": why})
    gc.disable()  # There are no cycles here, and a search for them costs more than a pass.
    end = whole = time.monotonic()
    while True:
        births, ends = ([], []) if events is None else (list(events.born()), list(events.ended()))
        lost = events is not None and events.lost
        if events is None or lost or end >= whole:
            whole = end + _LISTED_AGAIN_S
            passes.listed(ends)
        else:
            passes.heard(births, ends)
        if events is not None:
            events.lost = False
        passes.flush()
        # After a pause (a suspended machine) the seconds that were missed are not made up for.
        end = max(end + every_s, time.monotonic())
        passes.wait(end, events)


class Passes:
    """What is known of everybody, and what of it is news."""

    def __init__(self, machine: Machine, out: Out, given: Given) -> None:
        self._proc = machine.proc
        self._out = out
        self._about = given.about
        self._reader = Reader(machine.proc, given.about, given.spared)
        self._entries: dict[int, _Entry] = {}
        self._names: set[str] = set()
        self._list_s = time.time()
        """When they were all there."""
        self._due: list[tuple[float, int]] = []
        self._lines: list[bytes] = []
        self._reads = 0
        for pid, row in given.known.items():
            self._entries[pid] = _Entry(int(str(row["start"])), bool(row.get("kernel")), dict(row))
            heapq.heappush(self._due, (time.monotonic() + _spread(pid), pid))
        self._names = {str(pid) for pid in self._entries}
        self._whole = not self._entries
        """The first pass reads everybody."""
        self._holders: set[int] = set()
        self._ends: dict[int, Event] = {}
        """Processes that have ended and may still be there."""
        for pid, entry in self._entries.items():
            self._note(pid, entry)

    def say(self, row: Row, at_s: float | None = None) -> None:
        """One line for the ring."""
        self._lines.append(line({"is": row["is"], "t": round(time.time() if at_s is None else at_s, 3), **row}))

    def flush(self) -> None:
        """What was seen in this second goes out."""
        for text in self._lines:
            self._out.line(text[:-1].decode("ascii"))
        self._lines.clear()
        self._out.line("")
        self._reads = 0

    def wait(self, end: float, events: Connector | None) -> None:
        """Until the next pass; programs that start are read at once."""
        while True:
            left = end - time.monotonic()
            if left <= 0:
                return
            if events is None or self._reads >= _READS_CAP:
                time.sleep(left)
                return
            if select.select([events.starts], [], [], left)[0]:
                for event in events.started():
                    self.started(event)

    def listed(self, ends: Iterable[Event]) -> None:
        """A pass that sees by itself who has come and gone. ``ends``: what the kernel has told besides."""
        self._ends.update((event.pid, event) for event in ends)
        try:
            names = set(filter(str.isdecimal, os.listdir(self._proc)))  # noqa: PTH208 - names, of thousands
        except OSError as error:
            raise Ended("denied", f"{self._proc} cannot be read: {error.strerror}") from None
        born, gone = names - self._names, set(map(int, self._names - names))
        for pid in gone:
            self._gone(pid, self._ends.pop(pid, None), self._list_s)
        self._names, self._list_s = names, time.time()
        self._pass(sorted(map(int, born)), gone)

    def heard(self, births: Iterable[Event], ends: Iterable[Event]) -> None:
        """A pass in which the kernel has told who has come and gone."""
        self._ends.update((event.pid, event) for event in ends)
        gone: set[int] = set()
        for pid, event in list(self._ends.items()):
            entry = self._entries.get(pid)
            stat = None if entry is None else self._reader.stat(pid)
            if entry is None or stat is None or stat.start != entry.start:
                self._gone(pid, event)
                del self._ends[pid]
                gone.add(pid)
        self._pass([event.pid for event in births if event.pid not in self._entries], gone)

    def _pass(self, born: Iterable[int], gone: set[int]) -> None:
        self._read_all(born)
        self._read_due(time.monotonic())
        # Who has ended and is still there is a zombie.
        self._check([*self._close(), *self._ends, *self._orphans(gone)])
        self.say({"is": "tick"})

    def _read_all(self, pids: Iterable[int]) -> None:
        first, self._whole = self._whole, False
        for number, pid in enumerate(pids):
            # Who was there before the recorder is read once in ten minutes, each at a moment of its own.
            self._read(pid, age=_AGAIN_S if first else 1.0, spread=first)
            if number % _FIRST_PART == _FIRST_PART - 1:
                self._out.line("")

    def _read_due(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            _, pid = heapq.heappop(self._due)
            entry = self._entries.get(pid)
            if entry is not None:
                self._read(pid, age=entry.age * _OLDER if entry.age < _LAST_AGE_S else _AGAIN_S)

    def _read(self, pid: int, *, age: float, spread: bool = False) -> None:
        stat = self._reader.stat(pid)
        if stat is None:
            return  # It has just ended; the next pass says so.
        # Many a process is gone before it is a second old: what is read of a new one is little.
        read = self._reader.full if spread or pid in self._entries else self._reader.brief
        entry = self._told(pid, stat, {} if stat.kernel else read(pid, stat))
        entry.age = age
        if not stat.kernel:
            heapq.heappush(self._due, (time.monotonic() + (_spread(pid) if spread else age), pid))

    def started(self, event: Event) -> None:
        """A program has begun: it has a new command line.

        Of those that end before the next pass only such are told that may have ended others.
        """
        self._reads += 1
        if self._reads > _READS_CAP:
            return
        if event.pid not in self._entries and not _may_matter(self._reader.cmdline(event.pid)):
            return
        stat = self._reader.stat(event.pid)
        if stat is None:
            return
        new = event.pid not in self._entries
        entry = self._told(event.pid, stat, self._reader.brief(event.pid, stat), _wall(event.monotonic_s))
        if new:
            heapq.heappush(self._due, (time.monotonic() + entry.age, event.pid))

    def _told(self, pid: int, stat: Stat, row: Row, at_s: float | None = None) -> _Entry:
        """Say what is new."""
        entry = self._entries.get(pid)
        if entry is not None and entry.start != stat.start:
            self._gone(pid, None, entry.read_s)
            entry = None
        if entry is None:
            entry = self._entries[pid] = _Entry(stat.start, stat.kernel, row)
            self._names.add(str(pid))
            self._note(pid, entry)
            if stat.kernel and pid != _KTHREADD:
                return entry
            kernel: Row = {"comm": stat.comm, "ppid": stat.ppid, "kernel": True} if stat.kernel else {}
            self.say({"is": "proc", "pid": pid, "start": stat.start, **row, **kernel}, at_s)
            return entry
        changed = {key: value for key, value in row.items() if entry.row.get(key) != value}
        if str(changed.get("state", "")) in QUIET and str(entry.row.get("state")) in QUIET:
            changed.pop("state", None)
        if changed.get("state") in ("Z", "X"):
            # It may have ended at any time since.
            changed["seen"] = round(entry.read_s, 3)
        entry.read_s = time.time()
        # The number of threads follows the work; it matters where a leader is dead.
        if set(changed) == {"threads"}:
            changed.clear()
        if changed:
            entry.row.update(changed)
            self._note(pid, entry)
            self.say({"is": "proc", "pid": pid, "start": stat.start, **changed}, at_s)
        return entry

    def _check(self, pids: Iterable[int]) -> None:
        """State, parent and groups only, unless the name is another one: then so is the title."""
        for pid in dict.fromkeys(pids):
            stat = self._reader.stat(pid)
            if stat is None or stat.kernel:
                continue
            entry = self._entries.get(pid)
            if entry is not None and entry.row.get("comm") != stat.comm:
                self._told(pid, stat, self._reader.full(pid, stat))
            else:
                self._told(pid, stat, dict(zip(("comm", "state", "ppid", "pgid", "sid"), stat[:5])))

    def _gone(self, pid: int, end: Event | None, seen_s: float | None = None) -> None:
        entry = self._entries.pop(pid, None)
        self._names.discard(str(pid))
        self._holders.discard(pid)
        if entry is None or (entry.kernel and pid != _KTHREADD):
            return
        row: Row = {"is": "gone", "pid": pid, "start": entry.start}
        if end is None:
            self.say({**row, "seen": round(self._list_s if seen_s is None else seen_s, 3)})
            return
        status = end.status or 0
        row["exact"] = True
        row.update({"signal": status & 0x7F} if status & 0x7F else {"code": status >> 8 & 0xFF})
        self.say(row, _wall(end.monotonic_s))

    def _close(self) -> list[int]:
        """Who has a device, and the line of descent above him."""
        found: list[int] = []
        listed = {pid for pid in noted_listed(self._about) if pid in self._entries}
        for pid in sorted(self._holders | listed):
            for _ in range(_ANCESTORS):
                found.append(pid)
                pid = int(str(self._entries[pid].row.get("ppid") or 0))
                if pid <= 1 or pid not in self._entries:
                    break
        return found

    def _orphans(self, gone: set[int]) -> list[int]:
        """Children of those who are gone: they have another parent now."""
        return [pid for pid, entry in self._entries.items() if entry.row.get("ppid") in gone] if gone else []

    def _note(self, pid: int, entry: _Entry) -> None:
        if entry.row.get("fds"):
            self._holders.add(pid)
        else:
            self._holders.discard(pid)


def _may_matter(row: Row) -> bool:
    text = str(row.get("cmdline", ""))
    return any(word in text for word in _TELLING)


def _spread(pid: int) -> float:
    """A moment within the next round; the golden ratio spreads any run of numbers evenly."""
    return _AGAIN_S * (pid * 0.6180339887498949 % 1)


def _wall(monotonic_s: float) -> float:
    return time.time() - time.monotonic() + monotonic_s
