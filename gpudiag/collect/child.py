"""The child's side of a source: cut off from the terminal, with one pipe to the parent, gone after its deadline."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Container
from typing import NamedTuple, NoReturn

from gpudiag.collect.machine import tool_environment
from gpudiag.collect.source import Ended, Source

ROW, STARTED, ENDED = "=", "p", "e"
"""First character of a line in the pipe of a ``produce``; a tool's pipe holds its output as it is."""
NOT_STARTED = 127
"""Exit code of a child that could not become its tool; a shell's words for the same are its own, and not empty."""
_PIPE = 3
_CHUNK = 1 << 16
_OUTLIVES_S = 5
"""A child whose parent was killed ends by itself so many seconds after its deadline."""


class Spawned(NamedTuple):
    """A child that was started."""

    pid: int
    pipe: int
    """Descriptor from which its output is read."""
    ear: int | None
    """Descriptor to which the line is written that a source waits for."""


def spawn(source: Source) -> Spawned:
    """Start a source."""
    reading, writing = os.pipe()
    listening, ear = os.pipe() if source.listens else (None, None)
    try:
        pid = os.fork()
    except OSError:
        for number in (reading, writing, listening, ear):
            if number is not None:
                os.close(number)
        raise
    if pid == 0:
        _child(source, writing, listening)
    os.close(writing)
    if listening is not None:
        os.close(listening)
    return Spawned(pid, reading, ear)


def heard(seconds: float) -> str | None:
    """The line that the collector had to say to this source; ``None``: none came within these seconds."""
    end = time.monotonic() + seconds
    data = b""
    while not data.endswith(b"\n"):
        if not select.select([0], [], [], max(0.0, end - time.monotonic()))[0]:
            return None
        piece = os.read(0, _CHUNK)
        if not piece:
            return None
        data += piece
    return data.decode("utf-8", "replace").rstrip("\n")


def told_to_end(seconds: float) -> bool:
    """The collector has said something to this source, or is gone; it is waited for so long."""
    return bool(select.select([0], [], [], seconds)[0])


def _child(source: Source, writing: int, listening: int | None) -> NoReturn:
    """Never returns, whatever happens: the caller's code must not run twice."""
    status = 70
    try:
        os.setsid()
        _descriptors(writing, listening, tool=bool(source.argv))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        # An alarm outlives exec, and its default action ends the process: nothing waits for an orphan of ours.
        signal.alarm(int(source.deadline_s) + _OUTLIVES_S)
        if source.argv:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            status = NOT_STARTED
            os.execve(source.argv[0], source.argv, dict(tool_environment()))
        _produce(source)
        status = 0
    except BaseException:
        pass  # There is nobody to tell: the parent sees a pipe that ends and an exit code.
    finally:
        os._exit(status)


def _descriptors(writing: int, listening: int | None, *, tool: bool) -> None:
    """Keep the pipes only. An inherited descriptor would hold a terminal, an ssh session or the bundle."""
    null = os.open(os.devnull, os.O_RDWR)
    pipe = os.dup(writing)
    while pipe <= _PIPE:
        pipe = os.dup(pipe)
    os.dup2(null if listening is None else listening, 0)
    for number in (1, 2):
        os.dup2(pipe if tool else null, number)
    os.dup2(pipe, _PIPE)
    os.set_inheritable(_PIPE, False)
    close_all_but(range(_PIPE + 1))


def close_all_but(kept: Container[int]) -> None:
    """Close every other descriptor. The limit may be a milliard, so it is not counted up to."""
    try:
        with os.scandir("/proc/self/fd") as entries:
            numbers = [int(entry.name) for entry in entries]
    except OSError:
        numbers = list(range(256))
    for number in numbers:
        if number not in kept:
            try:
                os.close(number)
            except OSError:
                continue  # the listing's own


class _Pipe:
    """Rows on their way to the parent, one write a row or a few."""

    def line(self, text: str) -> None:
        for part in text.split("\n"):
            self._send(ROW, part)

    def started(self, pid: int) -> None:
        self._send(STARTED, str(pid))

    def ended(self, outcome: str, because: str | None, exit_code: int | None) -> None:
        import json  # in the child, where it costs nobody else time

        self._send(ENDED, json.dumps([outcome, because, exit_code]))

    def _send(self, kind: str, text: str) -> None:
        data = memoryview(f"{kind}{text}\n".encode("utf-8", "surrogateescape"))
        while data:
            data = data[os.write(_PIPE, data) :]


def _produce(source: Source) -> None:
    pipe = _Pipe()
    if source.produce is None:
        return
    try:
        source.produce(pipe)
        pipe.ended("ok", None, None)
    except Ended as end:
        pipe.ended(end.outcome, end.because, end.exit_code)
    except Exception as error:
        words = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        pipe.ended("denied" if isinstance(error, PermissionError) else "truncated", words, None)
