"""What the kernel's record around a kill command proves about its steps: a trace, or process events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from gpudiag.model import Citation, TraceEvent
from gpudiag.parse.trace import UNKNOWN_COMM
from gpudiag.timeline.order import SECOND, Clock

_SIGCHLD = 17
"""What any exiting process sends its parent."""
_NOT_QUEUED = 3
"""``signal_generate``'s result for a signal that got lost; ignored (1) and already pending (2) ones were sent."""
_SLACK_NS = SECOND // 4
"""A trace's clock is tied to wall time by two separate reads; a record's stamps are taken around the command."""
_LONGEST_LINE = 16
"""Ancestors that are followed."""


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
    """It signalled its own parent and that parent exited; ``False`` = it did not signal it. ``None``: not recorded."""
    cites: tuple[Citation, ...]


@dataclass(frozen=True)
class Reach:
    """How far a record goes."""

    same_pids: bool
    """Its PIDs are those of the looks. Without that it proves nothing about them."""
    whole: bool = True
    """No event was lost, and the record was not cut off: what it does not show did not happen."""
    signals: bool = True
    """It records signals, too. Process events tell of forks, programs and ends only."""


class Trace:
    """The recorded events of one host."""

    def __init__(self, events: Sequence[TraceEvent], clock: Clock | None, reach: Reach):
        # Processors write their events side by side; in the file two of them may have changed places.
        self._events = tuple(sorted(events, key=lambda event: event.clock_s))
        self._clock = clock
        self._reach = reach
        self.usable = bool(events) and clock is not None and reach.same_pids

    @property
    def signals(self) -> bool:
        """It records who sent a signal to whom."""
        return self._reach.signals

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
        """It is whole, and was on when the command was given: its silence then means that nothing happened."""
        if not self.usable or not self._reach.whole or self._clock is None or start_ns is None:
            return False
        first, last = self._clock.at(self._events[0].clock_s), self._clock.at(self._events[-1].clock_s)
        return first - _SLACK_NS <= start_ns <= last

    def descent(self, pid: int) -> frozenset[int]:
        """This process with its threads and everybody that came of it."""
        line = {pid}
        for event in self._forks.values():
            if event.pid in line and event.target_pid is not None:
                line.add(event.target_pid)
        return frozenset(line)

    def line_above(self, pid: int) -> tuple[int, ...]:
        """The processes that it came of, nearest first, as far as the record goes."""
        line: list[int] = []
        while len(line) < _LONGEST_LINE and (born := self._forks.get(pid)) is not None and born.pid not in line:
            pid = born.pid
            line.append(pid)
        return tuple(line)

    def name(self, pid: int, clock_s: float) -> str | None:
        """What it ran then, by its programs and its birth. What stands in front of a line may be its name of later."""
        known = next((name for since, name in reversed(self._names.get(pid, [])) if since <= clock_s), None)
        return known or self._shown.get(pid)

    @cached_property
    def _forks(self) -> dict[int, TraceEvent]:
        """By the PID that began; in order of time."""
        return {e.target_pid: e for e in self._events if e.kind == "fork" and e.target_pid is not None}

    @cached_property
    def _names(self) -> dict[int, list[tuple[float, str]]]:
        """By PID, since when."""
        names: dict[int, list[tuple[float, str]]] = {}
        for event in self._events:
            if event.kind == "exec" and event.filename:
                names.setdefault(event.pid, []).append((event.clock_s, PurePosixPath(event.filename).name))
            elif event.kind == "fork" and event.target_pid is not None and (event.target_comm or event.comm):
                names.setdefault(event.target_pid, []).append((event.clock_s, event.target_comm or event.comm))
        return names

    @cached_property
    def _shown(self) -> dict[int, str]:
        """By PID what stands in front of its first line."""
        named = (event for event in reversed(self._events) if event.comm not in ("", UNKNOWN_COMM))
        return {event.pid: event.comm for event in named}

    def runs_of(
        self, tool: str, events: Sequence[TraceEvent], within: frozenset[int] | None = None
    ) -> list[TracedStep]:
        """Every start of a program of this name among the events. ``within``: only by these processes."""
        starts = [
            e
            for e in events
            if e.kind == "exec" and PurePosixPath(e.filename or "").name == tool and (within is None or e.pid in within)
        ]
        return [self._traced(start, events) for start in starts]

    def _traced(self, start: TraceEvent, events: Sequence[TraceEvent]) -> TracedStep:
        forked = next((e for e in events if e.kind == "fork" and e.target_pid == start.pid), None)
        parent = forked.pid if forked is not None else None
        run = TracedStep(start.pid, parent, {}, None, (start.cited,))
        if not self.signals:
            return run
        sent = [e for e in events if e.kind == "signal_generate" and e.pid == start.pid and _deliberate(e)]
        targets = {e.target_pid: e.signal for e in sent if e.target_pid is not None and e.signal is not None}
        # A kernel that does not tell whether it was the last thread tells of the leader under the process's own PID.
        exits = {e.pid: e for e in events if e.kind == "exit" and e.group_dead is not False}
        died: bool | None = None
        if parent is not None:
            died = parent in exits if parent in targets else False
        proof = [start, *sent] + ([exits[parent]] if parent in exits and died else [])
        return replace(run, targets=targets, parent_died=died, cites=tuple(e.cited for e in proof))

    def signals_to(
        self,
        pids: Sequence[int],
        signal: int | None,
        events: Sequence[TraceEvent],
        within: frozenset[int] | None = None,
    ) -> list[TraceEvent]:
        """Signals that somebody sent to these PIDs: a shell's own ``kill`` starts no program."""
        return [
            e
            for e in events
            if e.kind == "signal_generate"
            and e.target_pid in pids
            and e.signal == signal
            and e.pid != e.target_pid
            and (within is None or e.pid in within)
        ]


def _deliberate(event: TraceEvent) -> bool:
    return event.signal is not None and event.signal != _SIGCHLD and event.result != _NOT_QUEUED
