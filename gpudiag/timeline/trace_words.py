"""Which events of the kernel's record a reader should see, and in what words: who sent what to whom, who ended how."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpudiag.model import TraceEvent
from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.facts.reach import signal_name
from gpudiag.timeline.lives import Census
from gpudiag.timeline.trace import Trace

_SIGCHLD = 17
_RESULTS = {
    1: ", which ignored it or was about to end",
    2: ", which had it already",
    3: ", but it got lost",
}
"""``signal_generate``'s ``res``; 0 and 4 were delivered."""
_ANCESTORS = 2
"""Named behind a sender."""


@dataclass(frozen=True)
class Told:
    """An event in words."""

    event: TraceEvent
    kind: str
    """``signal``, ``exec`` or ``exit``."""
    pid: int
    """The process that it is about: of a signal its receiver."""
    text: str


def told(
    trace: Trace, host: str, actions: Sequence[ActionView], census: Census, observers: frozenset[int]
) -> Iterator[Told]:
    """In order of time; of others' signals and programs only what concerns a recorded process.

    ``observers``: the recorder's own processes, of whose ends nobody wants to read.
    """
    started = {view.action.pid: view.id for view in actions if view.host == host and view.action.pid is not None}
    owner = {pid: name for root, name in started.items() for pid in trace.descent(root)}
    words = _Words(trace, owner)
    for event in trace.events:
        ours = event.pid in owner or not owner
        if event.kind == "signal_generate" and event.signal not in (None, _SIGCHLD):
            target = event.target_pid or event.pid
            if ours or census.named(host, target):
                yield Told(event, "signal", target, words.signal(event))
        elif event.kind == "exec" and ours:
            yield Told(event, "exec", event.pid, words.became(event))
        elif event.kind == "exit" and _is_end(event, observers) and _is_program(census, host, event.pid):
            yield Told(event, "exit", event.pid, words.ended(event))


def _is_program(census: Census, host: str, pid: int) -> bool:
    """It is recorded, and not a thread of the kernel's own, such as the driver starts for every context."""
    return any(life.latest("kernel_thread") is not True for life in census.named(host, pid))


def _is_end(event: TraceEvent, observers: frozenset[int]) -> bool:
    return event.group_dead is not False and event.pid not in observers


class _Words:
    def __init__(self, trace: Trace, owner: dict[int, str]) -> None:
        self._trace = trace
        self._owner = owner
        """The command, by its id, for which a process acts."""

    def signal(self, event: TraceEvent) -> str:
        target = f"{event.target_comm or 'process'} ({event.target_pid})"
        return (
            f"{self._sender(event)} sent {signal_name(event.signal)} to {target}{_RESULTS.get(event.result or 0, '')}"
        )

    def became(self, event: TraceEvent) -> str:
        return f"{event.pid}{self._for(event.pid)} became {event.filename or 'a program that was over at once'}"

    def ended(self, event: TraceEvent) -> str:
        who = f"{self._name(event)} ({event.pid})"
        if event.status is None:
            return f"{who} {'was gone' if event.origin == 'polled' else 'ended'}"
        if os.WIFSIGNALED(event.status):
            return f"{who} was ended by {signal_name(os.WTERMSIG(event.status))}"
        return f"{who} ended with exit code {os.WEXITSTATUS(event.status)}"

    def _sender(self, event: TraceEvent) -> str:
        above = self._trace.line_above(event.pid)[:_ANCESTORS]
        named = [f"{self._trace.name(pid, event.clock_s) or 'process'} {pid}" for pid in above]
        line = f", started by {', and that by '.join(named)}" if named else ""
        return f"{self._name(event)} ({event.pid}{line}){self._for(event.pid)}"

    def _name(self, event: TraceEvent) -> str:
        return self._trace.name(event.pid, event.clock_s) or "process"

    def _for(self, pid: int) -> str:
        return f" for {self._owner[pid]}" if pid in self._owner else ""
