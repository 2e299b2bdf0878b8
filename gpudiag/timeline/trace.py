"""What a kernel trace proves about the steps of a kill command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpudiag.model import Citation, TraceEvent
from gpudiag.timeline.order import SECOND, Clock

USER_SENT = 0
"""``signal_generate``'s result for a signal that was queued for delivery."""
_SLACK_NS = SECOND // 4
"""A trace's clock is tied to wall time by two separate reads; a record's stamps are taken around the command."""


@dataclass(frozen=True)
class TracedStep:
    """One start of a tool inside the time of a command, as the kernel recorded it."""

    pid: int
    """PID of the tool."""
    parent_pid: int | None
    """The shell (or other process) that forked it."""
    targets: dict[int, int]
    """PID to signal number, for every signal that it sent."""
    parent_died: bool | None
    """It signalled its own parent and that parent exited; ``False`` = it did not signal it."""
    cites: tuple[Citation, ...]


class Trace:
    """The recorded events of one host, usable only where its PIDs are those of the looks."""

    def __init__(self, events: Sequence[TraceEvent], clock: Clock | None, same_pids: bool):
        self._events = tuple(events)
        self._clock = clock
        self.usable = bool(events) and clock is not None and same_pids
        """Trace PIDs are global; without a map to the looks' PID namespace they prove nothing about them."""

    def wall_ns(self, event: TraceEvent) -> int | None:
        """When it happened."""
        return None if self._clock is None else self._clock.at(event.clock_s)

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """All recorded events, in order."""
        return self._events

    def window(self, start_ns: int | None, end_ns: int | None) -> tuple[TraceEvent, ...]:
        """Events during a command; the whole trace where the command has no time."""
        if start_ns is None or self._clock is None:
            return self._events
        last = (end_ns if end_ns is not None else start_ns) + _SLACK_NS
        return tuple(e for e in self._events if start_ns - _SLACK_NS <= self._clock.at(e.clock_s) <= last)

    def covers(self, start_ns: int | None) -> bool:
        """The recording was on when the command was given: silence of the trace then means that nothing happened."""
        if not self.usable or self._clock is None or start_ns is None:
            return False
        first, last = self._clock.at(self._events[0].clock_s), self._clock.at(self._events[-1].clock_s)
        return first - _SLACK_NS <= start_ns <= last

    def runs_of(self, tool: str, events: Sequence[TraceEvent]) -> list[TracedStep]:
        """Every start of a program of this name among the events."""
        starts = [e for e in events if e.kind == "exec" and PurePosixPath(e.filename or "").name == tool]
        return [self._traced(start, events) for start in starts]

    def _traced(self, start: TraceEvent, events: Sequence[TraceEvent]) -> TracedStep:
        forked = next((e for e in events if e.kind == "fork" and e.target_pid == start.pid), None)
        parent = forked.pid if forked is not None else None
        sent = [e for e in events if e.kind == "signal_generate" and e.pid == start.pid and _deliberate(e)]
        targets = {e.target_pid: e.signal for e in sent if e.target_pid is not None and e.signal is not None}
        exits = {e.pid: e for e in events if e.kind == "exit" and e.group_dead}
        died: bool | None = None
        if parent is not None:
            died = parent in exits if parent in targets else False
        proof = [start, *sent] + ([exits[parent]] if parent in exits and died else [])
        return TracedStep(start.pid, parent, targets, died, tuple(e.cited for e in proof))

    def signals_to(self, pids: Sequence[int], signal: int | None, events: Sequence[TraceEvent]) -> list[TraceEvent]:
        """Signals that somebody sent to these PIDs: a shell's own ``kill`` starts no program."""
        return [
            e
            for e in events
            if e.kind == "signal_generate" and e.target_pid in pids and e.signal == signal and e.pid != e.target_pid
        ]


def _deliberate(event: TraceEvent) -> bool:
    """SIGCHLD (17) is what any exiting process sends its parent."""
    return event.signal is not None and event.signal != 17 and event.result == USER_SENT
