"""Do a thing for each of many processes where it may never return for one of them: that costs one row."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Callable

from gpudiag.collect.child import close_all_but

_STALLS_CAP = 5
"""After so many items that did not return the rest is not tried; each may leave a process behind that hangs."""
_CHUNK = 1 << 16


def guarded(
    items: Sequence[int], work: Callable[[int], object], stall_s: float, started: Callable[[int], None]
) -> Iterator[tuple[int, object]]:
    """Each item with what ``work`` gave for it, by way of JSON; ``None``: it did not return, or failed.

    ``stall_s``: how long one item may take. ``started`` hears the PIDs of the processes that do the work.
    """
    position = stalls = 0
    while position < len(items):
        for result in _worker(items[position:], work, stall_s, started):
            yield items[position], result
            position += 1
        if position < len(items):
            yield items[position], None
            position += 1
            stalls += 1
        if stalls >= _STALLS_CAP:
            for item in items[position:]:
                yield item, None
            return


def _worker(
    items: Sequence[int], work: Callable[[int], object], stall_s: float, started: Callable[[int], None]
) -> Iterator[object]:
    """Results as far as one worker comes."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            close_all_but((0, 1, 2, writing))
            for item in items:
                data = memoryview((json.dumps(work(item)) + "\n").encode("ascii"))
                while data:
                    data = data[os.write(writing, data) :]
        finally:
            os._exit(0)
    os.close(writing)
    started(pid)
    try:
        yield from _results(reading, stall_s)
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        _reap(pid)


def _results(reading: int, stall_s: float) -> Iterator[object]:
    parts: list[bytes] = []
    last = time.monotonic()
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, last + stall_s - time.monotonic()))
        data = os.read(reading, _CHUNK) if ready else b""
        if not data:
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            parts.append(line)
            last = time.monotonic()
            yield json.loads(b"".join(parts))
            parts = []
        parts.append(rest)


def _reap(pid: int) -> None:
    """Not waited for longer than a process that can die needs."""
    for _ in range(200):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
        time.sleep(0.00025)
