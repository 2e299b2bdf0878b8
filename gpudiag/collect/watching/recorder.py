"""The recorder: takes what its two children see and keeps the ring. It reads nothing that could hold it up itself."""

from __future__ import annotations

import json
import mmap
import os
import pwd
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable, cast

from gpudiag import __version__
from gpudiag.collect.identity import own
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Out
from gpudiag.collect.telling import say
from gpudiag.collect.watching.feed import Feed
from gpudiag.collect.watching.known import Known, Row, line, note_listed
from gpudiag.collect.watching.ring import Bounds, Ring

VERSION = 1
EVERY_S = 1.0
_STALL_S = 5.0
"""A child of which nothing comes for so long waits for something that may never come."""
_NVML_STALL_S = 30.0
"""Without persistence mode the driver starts anew for whoever asks: seconds for each GPU."""
_AGAIN_S = (1.0, 5.0, 60.0)
"""Until GPUs that do not answer are asked again; the last one from then on."""
_ABANDONED_CAP = 3
"""Children that hang. More are not started: each holds a process in the kernel."""
_SPARED_CAP = 100


class Recorder:
    """One recording. ``OSError``, ``TakenError``: the ring cannot be used."""

    def __init__(self, folder: Path, bounds: Bounds, machine: Machine) -> None:
        self._machine = machine
        self._known = Known()
        self._ring = Ring(folder, bounds, self._snapshot)
        self._about = memoryview(mmap.mmap(-1, 4096))
        self._spared: set[int] = set()
        self._processes: Feed | None = None
        self._gpus: Feed | None = None
        self._gpus_at = 0.0
        self._gpu_failures = 0
        self._hung: list[Feed] = []
        self._waiting: list[bytes] = []
        self._told: set[str] = set()
        self._stopped = False
        self._shown = sys.stderr.isatty()

    def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            while not self._stopped:
                self._step()
            self._put([line({"is": "end", "t": round(time.time(), 3)})])
        finally:
            for feed in (self._processes, self._gpus):
                if feed is not None:
                    feed.close()
            self._ring.close()
            if self._shown:
                sys.stderr.write("\n")

    def _stop(self, number: int, frame: object) -> None:
        del number, frame
        self._stopped = True

    def _step(self) -> None:
        self._start()
        pipes = [feed.pipe for feed in (self._processes, self._gpus) if feed is not None]
        select.select(pipes, [], [], EVERY_S)
        if self._gpus is not None:
            self._take_gpus(self._gpus)
        if self._processes is not None:
            self._take_processes(self._processes)
        self._hung = [feed for feed in self._hung if not feed.reap()]

    def _start(self) -> None:
        """Whoever is not at work."""
        now = time.monotonic()
        machine, about, known = self._machine, self._about, self._known.processes
        if self._processes is None and len(self._hung) < _ABANDONED_CAP:
            spared = frozenset(self._spared)
            self._processes = self._feed("processes", lambda out: _processes(machine, out, about, spared, known))
        if self._gpus is None and now >= self._gpus_at and len(self._hung) < _ABANDONED_CAP:
            self._gpus = self._feed("GPUs", lambda out: _gpus(machine, out))

    def _feed(self, name: str, produce: Callable[[Out], None]) -> Feed | None:
        try:
            feed = Feed(name, produce)
        except OSError as error:
            self._once(f"no process can be started: {error.strerror}")
            return None
        self._put([line({"is": "own", "t": round(time.time(), 3), "pid": feed.pid, "what": name})])
        return feed

    def _take_gpus(self, feed: Feed) -> None:
        rows = feed.rows()
        self._put([row + b"\n" for row in rows if row])
        if any(rows):
            note_listed(self._about, self._known.listed())
        if rows:
            self._gpu_failures = 0
            self._told.discard("gpus")
        patience = _STALL_S if self._known.gpus else _NVML_STALL_S
        if feed.ended or time.monotonic() - feed.last_s > patience:
            self._lose_gpus(feed)

    def _lose_gpus(self, feed: Feed) -> None:
        because = (feed.because or "its child has ended") if feed.ended else "the driver does not answer"
        wait = _AGAIN_S[min(self._gpu_failures, len(_AGAIN_S) - 1)]
        self._gpu_failures += 1
        self._gpus_at = time.monotonic() + wait
        self._put([line({"is": "no gpus", "t": round(time.time(), 3), "because": because})])
        self._once(f"no GPU figures ({because}); processes are recorded all the same, and it is tried again", "gpus")
        self._leave(feed)
        self._gpus = None

    def _take_processes(self, feed: Feed) -> None:
        rows = feed.rows()
        # Lines of one second belong together: a name without its parent would be half a truth.
        self._waiting += [row + b"\n" for row in rows if row]
        if b"" in rows and self._waiting:
            waiting, self._waiting = self._waiting, []
            self._put(waiting)
            self._show()
        stalled = time.monotonic() - feed.last_s > _STALL_S
        if feed.ended or stalled:
            self._lose_processes(feed, stalled=stalled)

    def _lose_processes(self, feed: Feed, *, stalled: bool) -> None:
        pid = int.from_bytes(self._about[:4], "little")
        if stalled and pid and len(self._spared) < _SPARED_CAP:
            self._spared.add(pid)
            say(f"gpudiag: the command line of PID {pid} does not come back; it is left alone from now on")
        elif not stalled:
            self._once(f"processes: {feed.because or 'the child that looks has ended'}; it is tried again")
        self._about[:4] = b"\0\0\0\0"
        self._waiting.clear()
        self._leave(feed)
        self._processes = None
        time.sleep(0.2)

    def _leave(self, feed: Feed) -> None:
        feed.close()
        if not feed.reap():
            self._hung.append(feed)

    def _put(self, rows: list[bytes]) -> None:
        if not rows:
            return
        for row in rows:
            self._known.take(cast("Row", json.loads(row)))
        before = self._ring.trouble, self._ring.dropped_early
        self._ring.put(b"".join(rows))
        if self._ring.trouble is not None and self._ring.trouble != before[0]:
            say(f"gpudiag: the ring cannot be written: {self._ring.trouble}; it goes on as soon as there is room")
        elif self._ring.dropped_early != before[1]:
            self._once("the disk is full: the oldest part of the ring makes room for what happens now")

    def _snapshot(self, goes_on: bool) -> Iterator[bytes]:
        yield line(_header(self._machine, goes_on))
        pids = [feed.pid for feed in (self._processes, self._gpus, *self._hung) if feed is not None]
        for pid in pids:
            yield line({"is": "own", "pid": pid})
        yield from self._known.lines()

    def _once(self, sentence: str, key: str | None = None) -> None:
        if (key or sentence) not in self._told:
            self._told.add(key or sentence)
            say(f"gpudiag: {sentence}")

    def _show(self) -> None:
        """A line that is written over, for a person at a terminal."""
        if not self._shown:
            return
        gpus = f"{len(self._known.gpus)} GPUs with {self._known.used_bytes() / (1 << 30):.1f} GiB in use"
        text = f"{len(self._known.processes)} processes, {gpus}; ring {self._ring.size / (1 << 20):.1f} MiB"
        sys.stderr.write(f"\rgpudiag: recording: {text}\x1b[K")
        sys.stderr.flush()


# What a child does is imported in the child: the parent and its sibling need not carry it.


def _processes(machine: Machine, out: Out, about: memoryview, spared: frozenset[int], known: dict[int, Row]) -> None:
    from gpudiag.collect.watching import passes

    passes.follow(machine, out, EVERY_S, passes.Given(about, spared, known))


def _gpus(machine: Machine, out: Out) -> None:
    from gpudiag.collect import nvml

    nvml.follow(machine, out, EVERY_S)


def _header(machine: Machine, goes_on: bool) -> Row:
    """Whose ring it is: PIDs and start ticks mean something on this boot, in this namespace only."""
    here = own(machine.proc)
    uid = os.geteuid()
    try:
        user: str | None = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = None
    return {
        "is": "ring",
        "version": VERSION,
        "t": round(time.time(), 3),
        "goes_on": goes_on,
        "tool_version": __version__,
        "host": os.uname().nodename,
        "boot_id": here.boot_id,
        "pid_namespace": here.pid_namespace,
        "boot_s": time.clock_gettime(time.CLOCK_BOOTTIME),
        "uid": uid,
        "user": user,
        "pid": os.getpid(),
    }
