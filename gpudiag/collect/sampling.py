"""Device memory over time for as long as it takes: ``nvml-series.json`` around a command.

Who samples has the devices open, so that a command like ``fuser -k /dev/nvidia*`` hits it. The process that writes has
not: it starts another one that samples, and notes how often it had to.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Iterator
from typing import cast

from gpudiag.collect.child import ENDED, ROW, spawn, told_to_end
from gpudiag.collect.look import SERIES_MEMBER
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended, Out, Source

_KILLED_CAP = 20
"""So often another one is started."""
_CHUNK = 1 << 16
_TOLD_S = 0.02
"""How soon it ends when it is told to."""


def source(machine: Machine, longest_s: float, every_s: float) -> Source:
    """Samples until it is told to end."""
    return Source(
        "memory over time",
        SERIES_MEMBER,
        longest_s,
        produce=lambda out: produce(machine, out, longest_s, every_s),
        listens=True,
    )


def produce(machine: Machine, out: Out, longest_s: float, every_s: float) -> None:
    """A row where something changed, and the last one."""
    rows = _Rows(out)
    killed = 0
    while True:
        sampler = _Sampler(machine, longest_s, every_s)
        out.started(sampler.pid)
        for row in sampler.rows():
            rows.add(row)
        if sampler.told or sampler.problem is not None:
            break
        killed += 1
        # A command that kills in a loop must not keep two processes busy.
        if killed == _KILLED_CAP or told_to_end(min(0.5, 0.01 * 2**killed)):
            break
    rows.end()
    if sampler.problem is not None:
        raise Ended(*sampler.problem)
    if killed:
        outcome = "truncated" if killed == _KILLED_CAP else "ok"
        raise Ended(outcome, f"the process that samples was killed, {killed} times in all")


class _Rows:
    """Of rows that say the same the first; of all of them the last."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._separator = "["
        self._shown: object = None
        self._waiting: str | None = None

    def add(self, row: str) -> None:
        figures = cast("dict[str, object]", json.loads(row))["gpus"]
        self._waiting = row
        if figures != self._shown:
            self._shown = figures
            self._write()

    def end(self) -> None:
        """Without a row there is no list."""
        self._write()
        if self._separator == ",":
            self._out.line("]")

    def _write(self) -> None:
        if self._waiting is not None:
            self._out.line(self._separator + self._waiting)
            self._separator, self._waiting = ",", None


class _Sampler:
    """The process that has the devices open. It writes every sample, and so ends soon when nobody reads them."""

    def __init__(self, machine: Machine, longest_s: float, every_s: float) -> None:
        def work(out: Out) -> None:
            from gpudiag.collect import nvml

            nvml.samples(machine, out, longest_s, every_s)

        self._child = spawn(Source("memory over time", SERIES_MEMBER, longest_s, produce=work))
        self.told = False
        """The recorder wants an end."""
        self.problem: tuple[str, str] | None = None
        """How it ended by itself."""

    @property
    def pid(self) -> int:
        return self._child.pid

    def rows(self) -> Iterator[str]:
        """Until the recorder wants an end, or it is gone."""
        pending = b""
        try:
            while not self.told:
                if not select.select([self._child.pipe], [], [], _TOLD_S)[0]:
                    self.told = told_to_end(0)
                    continue
                data = os.read(self._child.pipe, _CHUNK)
                if not data:
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    yield from self._row(line.decode("ascii", "replace"))
                self.told = told_to_end(0)
        finally:
            self._end()

    def _row(self, line: str) -> Iterator[str]:
        kind, text = line[:1], line[1:]
        if kind == ROW:
            yield text
        elif kind == ENDED:
            outcome, because, _ = cast("list[str | None]", json.loads(text))
            self.problem = (outcome or "truncated", because or "the sampling ended early")

    def _end(self) -> None:
        os.close(self._child.pipe)
        with contextlib.suppress(OSError):  # It has ended.
            os.kill(self._child.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            time.sleep(0.001)
            # Not waited for: what hangs in the driver does not die of it.
            os.waitpid(self._child.pid, os.WNOHANG)
