"""Ask a program from inside a source: its lines, within a time, and never waited for longer."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Callable

from gpudiag.collect.machine import Machine, tool_environment

_CHUNK = 1 << 16
_BYTES_CAP = 16 << 20
"""Output of one program that is read; the newest lines are asked for, so that it is rarely reached."""


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
    try:
        child = subprocess.Popen(
            [path, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(tool_environment()),
        )
    except OSError as error:
        answer.because = f"{argv[0]} cannot be started: {error.strerror}"
        return iter(())
    started(child.pid)
    return _answered(child, argv[0], time.monotonic() + deadline_s, deadline_s, answer)


def _answered(
    child: subprocess.Popen[bytes], name: str, end: float, deadline_s: float, answer: Answer
) -> Iterator[str]:
    pipe = child.stdout
    if pipe is None:
        return
    try:
        yield from _lines(pipe.fileno(), end, answer)
    finally:
        pipe.close()
        _end(child, name, deadline_s, answer)


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


def _end(child: subprocess.Popen[bytes], name: str, deadline_s: float, answer: Answer) -> None:
    """Its exit code if it has ended; a program that is late is killed and left."""
    try:
        answer.exit_code = child.wait(0.2)
    except subprocess.TimeoutExpired:
        child.kill()
        # It may hang in the kernel. Nobody waits for it, and the interpreter need not complain about that.
        child.returncode = -9
        if answer.because in (None, "late"):
            answer.because = f"{name} did not end within {deadline_s:g} s"
    if answer.because == "late":
        answer.because = f"{name} did not end within {deadline_s:g} s"
