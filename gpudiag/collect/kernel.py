"""What the kernel said about the driver and about processes that it ended or that hang."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from gpudiag.collect.ask import Answer, ask
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended, Out

_TELLING = re.compile(
    r"NVRM|Xid|nvidia|[Oo]ut of memory|oom[-_]|hung.task|blocked for more than|segfault|general protection"
    r"|invalid opcode|fallen off the bus|PM: suspend|PM: hibernation"
)
_NEWEST = 2000
_LINE_CAP = 4096
_WAYS = (
    ("dmesg",),
    ("journalctl", "-q", "--no-pager", "-k", "-b", "-o", "short-iso-precise"),
)
"""dmesg has the kernel's own clock; the journal is there for whom dmesg is closed to."""


def produce(machine: Machine, out: Out, deadline_s: float) -> None:
    """``kernel.log``: the newest telling lines of the first way that works."""
    problems: list[str] = []
    for argv in _WAYS:
        answer = Answer()
        lines = telling(ask(machine, argv, deadline_s / len(_WAYS) - 0.25, out.started, answer))
        if answer.good or lines:
            for line in lines:
                out.line(line)
            if not answer.good:
                raise Ended("truncated", answer.because or f"{argv[0]} ended with {answer.exit_code}")
            return
        problems.append(answer.because or f"{argv[0]} ended with {answer.exit_code}")
    if all(machine.tool(argv[0]) is None for argv in _WAYS):
        raise Ended("absent", "; ".join(problems))
    raise Ended("timed_out" if any("did not end" in text for text in problems) else "denied", "; ".join(problems))


def telling(lines: Iterable[str]) -> list[str]:
    """Lines about the driver, about memory that ran out, and about tasks that crashed or hang."""
    return list(deque((line[:_LINE_CAP] for line in lines if _TELLING.search(line[:_LINE_CAP])), maxlen=_NEWEST))
