"""The course of ``run``: a look, the command, memory until it has settled, another look; all of it in one bundle."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Callable, NamedTuple

from gpudiag.bundle.writer import BundleWriter
from gpudiag.collect import extras, figures, process_events, sampling, tracing
from gpudiag.collect.command import Command, Done, Line
from gpudiag.collect.machine import Machine
from gpudiag.collect.recording import Options, clocks, finish_look, start_look, start_record
from gpudiag.collect.runner import Job, Runner
from gpudiag.collect.secrets import Secrets
from gpudiag.collect.settle import NOT_WATCHED, Settled, settle, start_ticks
from gpudiag.collect.source import Context, Out, Source

BEFORE, AFTER = "before", "after"
_PAUSE_S = 0.02
"""Between two questions whether the command has ended."""
_READY_S = 3.0
"""How long the command waits for the kernel's trace to begin."""
_ENDING_S = 10.0
"""For a recording that was told to end."""
_UNWATCHED_S = 2.0
"""Before the last look where memory cannot be watched: what was killed a moment ago is not gone yet."""
_BEGUN, _KILLS = "command-begun.json", "kill-commands.json"
"""The command when it was started, and when it had ended: the second takes the first one's place."""
TRACE, NONE = "trace", "none"


class Wish(NamedTuple):
    """What a person has asked for."""

    line: Line
    options: Options
    settle_s: float
    """How long memory is watched after the command, at most."""


class Record(NamedTuple):
    """How the kernel's part is recorded."""

    way: str
    """``trace``, ``netlink``, ``polling`` or ``none``."""
    untraced: str | None = None
    """Why it is no trace."""


class Ran(NamedTuple):
    """What came of it."""

    path: Path
    done: Done
    settled: Settled
    record: Record


class _Signals:
    """While it is in force a signal before the command ends all, so that it is not run; from its start on a signal is
    for the command; after the command it ends the wait, and a second one ends all.
    """

    def __init__(self) -> None:
        self.asked_to_end = False
        self._command: Command | None = None
        self._starting = False
        self._early: list[int] = []
        """What came while the command was being started."""
        self._before: list[tuple[int, object]] = []

    def __enter__(self) -> _Signals:
        # No signal is ignored: the command would inherit that.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before.append((number, signal.signal(number, self._take)))
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)  # type: ignore[arg-type]

    def start(self, line: Line) -> Command:
        """Start the command. It may have said its first word before this returns."""
        self._starting = True
        self._command = Command(line)
        for number in self._early:
            self._command.send(number)
        return self._command

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._command is not None and not self._command.poll():
            self._command.send(number)
        elif self._command is None and self._starting:
            self._early.append(number)
        elif number != signal.SIGHUP:
            if self.asked_to_end or self._command is None:
                raise KeyboardInterrupt
            self.asked_to_end = True


def run(
    wish: Wish,
    machine: Machine,
    secrets: Callable[[], Secrets] | None = None,
    say: Callable[[Job], None] | None = None,
    begins: Callable[[Record], None] = lambda _: None,
) -> Ran:
    """Record everything. ``OSError``: the bundle cannot be written or the command not be started.

    ``begins`` hears, right before the command, how it is recorded.
    """
    bundle = BundleWriter(wish.options.path, start_record(wish.options, (BEFORE, AFTER), machine))
    runner = Runner(bundle, secrets, say)
    try:
        with _Signals() as signals:
            ran = _course(wish, machine, runner, signals, begins)
        bundle.finish(clocks(), runner.pids)
    finally:
        runner.stop("the recorder was stopped")
        bundle.close()
    return ran


def _course(wish: Wish, machine: Machine, runner: Runner, signals: _Signals, begins: Callable[[Record], None]) -> Ran:
    trace = runner.start(tracing.trace_source(os.getpid()))
    series = runner.start(sampling.source(machine, tracing.LONGEST_S, wish.options.sample_s))
    recordings = [trace, series]
    try:
        first = _look(wish.options, BEFORE, machine, runner, [])
        known = start_ticks(figures.booked_mib(first), machine)
        record = _begun(trace, runner)
        if record.way == NONE:
            events = runner.start(process_events.source(machine, tracing.LONGEST_S))
            recordings.append(events)
            record = _begun_events(events, record, runner)
        begins(record)
        done = _command(wish.line, runner, signals)
        settled = settle(
            machine,
            known,
            wish.settle_s,
            serve=lambda seconds: runner.run(until=time.monotonic() + seconds),
            over=lambda: signals.asked_to_end,
            started=runner.pids.append,
        )
        if settled.how == NOT_WATCHED:
            runner.run(until=time.monotonic() + _UNWATCHED_S)
        _look(wish.options, AFTER, machine, runner, first)
    finally:
        _end(recordings, runner)
    runner.start(tracing.clock_source(os.getpid(), left=trace.outcome != "ok"))
    for source in extras.sources(Context(machine, logs=wish.options.logs)):
        if source.member != _KILLS:
            runner.start(source)
    runner.run()
    return Ran(wish.options.path, done, settled, record)


def _look(options: Options, name: str, machine: Machine, runner: Runner, earlier: Sequence[Job]) -> list[Job]:
    jobs = start_look(options, name, machine, runner, earlier)
    return finish_look(options, name, machine, runner, jobs)


def _begun(trace: Job, runner: Runner) -> Record:
    """Wait until the kernel traces, or does not."""
    _until_written(trace, runner)
    if trace.ended:
        return Record(NONE, trace.because)
    return Record(TRACE) if trace.text else Record(NONE, f"it had not begun after {_READY_S:g} s")


def _begun_events(events: Job, record: Record, runner: Runner) -> Record:
    _until_written(events, runner)
    return record._replace(way=process_events.way_of(bytes(events.text)) or NONE)


def _until_written(job: Job, runner: Runner) -> None:
    end = time.monotonic() + _READY_S
    while not job.ended and not job.text and time.monotonic() < end:
        runner.run(until=time.monotonic() + _PAUSE_S)


def _command(line: Line, runner: Runner, signals: _Signals) -> Done:
    command = signals.start(line)
    runner.pids.extend(command.pids)
    # At once, both: a recorder that is killed from here on has it in its bundle.
    runner.start(_record_source(_BEGUN, command.begun.record()))
    while not command.poll():
        runner.run(until=time.monotonic() + _PAUSE_S)
    done = command.done()
    runner.run([runner.start(_record_source(_KILLS, done.record(), evidence="kill commands"))])
    return done


def _end(recordings: Sequence[Job], runner: Runner) -> None:
    """Let them write what they have; the trace gives its instance back."""
    for job in recordings:
        runner.tell(job, "end")
    runner.run(recordings, until=time.monotonic() + _ENDING_S)


def _record_source(member: str, record: dict[str, object], evidence: str | None = None) -> Source:
    def write(out: Out) -> None:
        for row in ("[", json.dumps(record), "]"):
            out.line(row)

    return Source("the command", member, 5, produce=write, evidence=evidence)
