"""A child that looks, seen from the recorder: its rows, whether it still moves, how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Callable, cast

from gpudiag.collect.child import ENDED, ROW, STARTED, spawn
from gpudiag.collect.source import Out, Source

FOREVER_S = 10 * 365 * 86400.0
_CHUNK = 1 << 16
_LINE_CAP = 4 << 20


class Feed:
    """One running child. ``OSError`` when it is made: no process could be started."""

    def __init__(self, name: str, produce: Callable[[Out], None]) -> None:
        spawned = spawn(Source(name, name, FOREVER_S, produce=produce))
        self.pid = spawned.pid
        self.pipe = spawned.pipe
        os.set_blocking(self.pipe, False)
        self._pending = b""
        self.ended = False
        self.because: str | None = None
        """Why it ended, in its own words."""
        self.last_s = time.monotonic()
        """When something came from it last."""

    def rows(self) -> list[bytes]:
        """What has come; an empty row ends what belongs together."""
        found: list[bytes] = []
        while not self.ended:
            try:
                data = os.read(self.pipe, _CHUNK)
            except BlockingIOError:
                break
            self.ended = not data or len(self._pending) > _LINE_CAP
            self._pending += data
            self.last_s = time.monotonic()
        *lines, self._pending = self._pending.split(b"\n")
        for text in lines:
            kind, rest = text[:1].decode("latin-1"), text[1:]
            if kind == ROW:
                found.append(rest)
            elif kind == ENDED:
                told = cast("list[object]", json.loads(rest))
                self.because = str(told[1]) if told[1] else None
            elif kind != STARTED:
                self.ended = True
        return found

    def close(self) -> None:
        """End it; one that hangs is left behind."""
        os.close(self.pipe)
        with contextlib.suppress(OSError):  # It has ended.
            os.killpg(self.pid, signal.SIGKILL)
        end = time.monotonic() + 0.2
        while time.monotonic() < end and not self.reap():
            time.sleep(0.005)

    def reap(self) -> bool:
        """It is gone for good."""
        try:
            return bool(os.waitpid(self.pid, os.WNOHANG)[0])
        except ChildProcessError:
            return True
