"""Ask a program from inside a source: its lines, within a time, and never waited for longer."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Callable

from gpudiag.collect.machine import Machine, tool_environment

_CHUNK = 1 << 16
_BYTES_CAP = 16 << 20
"""Output of one program that is read; the newest lines are asked for, so that it is rarely reached."""
_ENDING_S = 0.2
"""How long a program may take to end after it has closed its output."""
_POLL_S = 0.0005


class Answer:
    """How a program ended; filled while its lines are read."""

    def __init__(self) -> None:
        self.because: str | None = None
        """Why there is no answer, or not all of it: ``not installed``, ``no end within 2 s``."""
        self.exit_code: int | None = None
        """``None``: it did not end in time, or was not started."""

    @property
    def good(self) -> bool:
        """It was read to its end and the program was content."""
        return self.because is None and self.exit_code == 0


def ask(
    machine: Machine, argv: Sequence[str], deadline_s: float, started: Callable[[int], None], answer: Answer
) -> Iterator[str]:
    """Start it and give the lines of its standard output, which are to be read. ``started`` is told the PID.

    It runs from the call on, so that several can be asked at once.
    """
    path = machine.tool(argv[0])
    if path is None:
        answer.because = f"{argv[0]} is not installed"
        return iter(())
    reading, writing = os.pipe()
    # All other descriptors of ours are closed by the exec.
    places = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    )
    try:
        pid = os.posix_spawn(path, (path, *argv[1:]), tool_environment(), file_actions=places)
    except OSError as error:
        os.close(reading)
        answer.because = f"{argv[0]} cannot be started: {error.strerror}"
        return iter(())
    finally:
        os.close(writing)
    started(pid)
    return _answered(pid, reading, argv[0], time.monotonic() + deadline_s, deadline_s, answer)


def _answered(pid: int, pipe: int, name: str, end: float, deadline_s: float, answer: Answer) -> Iterator[str]:
    try:
        yield from _lines(pipe, end, answer)
    finally:
        os.close(pipe)
        _end(pid, name, deadline_s, answer)


def _lines(pipe: int, end: float, answer: Answer) -> Iterator[str]:
    left, pending = _BYTES_CAP, b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while left > 0:
            wait = end - time.monotonic()
            if wait <= 0 or not selector.select(wait):
                answer.because = "late"
                break
            data = os.read(pipe, _CHUNK)
            if not data:
                break
            left -= len(data)
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "surrogateescape")
        else:
            answer.because = f"more than {_BYTES_CAP >> 20} MiB"
    if pending:
        yield pending.decode("utf-8", "surrogateescape")


def _end(pid: int, name: str, deadline_s: float, answer: Answer) -> None:
    """Its exit code if it has ended; a program that is late is killed and left: it may hang in the kernel."""
    answer.exit_code = _exit_code(pid, _ENDING_S)
    if answer.exit_code is None:
        os.kill(pid, signal.SIGKILL)
    if answer.because == "late" or (answer.exit_code is None and answer.because is None):
        answer.because = f"{name} did not end within {deadline_s:g} s"


def _exit_code(pid: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if time.monotonic() >= end:
            return None
        time.sleep(_POLL_S)
