"""The course of a recording: looks at their times, memory in between, then everything that is not a look."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Callable, NamedTuple

from gpudiag import __version__
from gpudiag.bundle.format import Clocks, Start
from gpudiag.bundle.sinks import Stream
from gpudiag.bundle.writer import BundleWriter
from gpudiag.collect import figures, look
from gpudiag.collect.ahead import NOTHING_BEGUN, Begun
from gpudiag.collect.identity import NOBODY, Own, own
from gpudiag.collect.machine import Machine
from gpudiag.collect.runner import Job, Runner
from gpudiag.collect.secrets import Secrets
from gpudiag.collect.source import Context, Following, Source

_STUCK_DEADLINE_S = 2.0
"""For GPU sources of a look when those of the one before did not come back: each more is one more that hangs."""
_LOOKS_CAP = 99
STANDARD_OUTPUT = Path("-")


class Options(NamedTuple):
    """What a person has asked for."""

    path: Path
    """``STANDARD_OUTPUT``: the bundle goes there."""
    duration_s: float = 3.0
    """From the first to the last look; 0: one look, no series."""
    interval_s: float = 3.0
    """Between two looks."""
    sample_s: float = 0.05
    """Between two samples of device memory."""
    gpu_deadline_s: float = look.GPU_DEADLINE_S
    """For a source that asks the driver."""
    argv: tuple[str, ...] = ()
    """The collector's command line, without secrets."""
    kills: tuple[tuple[str, str | None], ...] = ()
    logs: tuple[str, ...] = ()
    history: tuple[str, ...] | None = None
    ring: str | None = None
    """Folder of a flight recorder's ring; ``None``: where they usually are."""
    callers: Own = NOBODY
    """Processes of the tool that started this one over a connection; they may be on the same machine."""

    @property
    def quick(self) -> bool:
        """One look, with the fewest questions."""
        return self.duration_s <= 0

    def looks(self) -> tuple[str, ...]:
        """Names of the looks, which sort in their order."""
        count = 1 + (0 if self.duration_s <= 0 else max(1, round(self.duration_s / max(self.interval_s, 0.01))))
        count = min(count, _LOOKS_CAP)
        width = len(str(count))
        return tuple(f"look-{number:0{width}d}" for number in range(1, count + 1))


class Recorded(NamedTuple):
    """What came of it."""

    path: Path
    answered: bool
    """At least one source told something about a GPU."""
    used_mib: dict[int, float]
    """Of each GPU, by index, in the last look that has it."""
    booked_mib: dict[int, float]
    """On each PID, by NVML, in the last look."""
    seconds: float


def record(
    options: Options,
    machine: Machine,
    extras: Callable[[Context], Sequence[Source]],
    secrets: Callable[[], Secrets] | None = None,
    say: Callable[[Job], None] | None = None,
    begun: Mapping[str, Begun] = NOTHING_BEGUN,
) -> Recorded:
    """Write the bundle. ``OSError``: it cannot be written (any further); what is there is a readable ``.partial``.

    ``begun``: sources of the first look that are at work already, by member.
    """
    started = time.monotonic()
    names = options.looks()
    sink = Stream(1) if options.path == STANDARD_OUTPUT else None
    bundle = BundleWriter(options.path, start_record(options, names, machine), sink=sink)
    runner = Runner(bundle, secrets, say)
    try:
        shown = _looks(options, names, machine, extras, runner, begun)
        bundle.finish(clocks(), runner.pids)
    finally:
        runner.stop("the collector was stopped")
        bundle.close()
    return Recorded(
        path=options.path,
        answered=any(figures.tells_of_gpu(job) for job in shown if job.source.member in look.GPU_MEMBERS),
        used_mib=figures.used_mib(shown),
        booked_mib=figures.booked_mib(shown),
        seconds=time.monotonic() - started,
    )


def _looks(
    options: Options,
    names: Sequence[str],
    machine: Machine,
    extras: Callable[[Context], Sequence[Source]],
    runner: Runner,
    begun: Mapping[str, Begun],
) -> list[Job]:
    first = time.monotonic()
    step = options.duration_s / max(1, len(names) - 1)
    if len(names) > 1:
        runner.start(look.series_source(machine, options.duration_s, options.sample_s))
    shown: list[Job] = []
    for number, name in enumerate(names):
        if number:
            runner.run(until=first + number * step)
        jobs = start_look(options, name, machine, runner, shown, NOTHING_BEGUN if number else begun)
        if number == 0:
            context = Context(machine, options.kills, options.logs, options.history, options.ring)
            for source in extras(context):
                runner.start(source)
        shown += finish_look(options, name, machine, runner, jobs)
    runner.run()
    return shown


def start_look(
    options: Options,
    name: str,
    machine: Machine,
    runner: Runner,
    earlier: Sequence[Job],
    begun: Mapping[str, Begun] = NOTHING_BEGUN,
) -> list[Job]:
    """Start the sources of a look. ``earlier``: those of the looks before it, which tell what to expect."""
    patience = _patience(options, earlier)
    sources = look.first_sources(machine, patience, None if earlier else _around(options, machine))
    if not options.quick:
        sources += look.more_sources(machine, patience)
    return [runner.start(source, name, begun.get(source.member)) for source in sources]


def finish_look(options: Options, name: str, machine: Machine, runner: Runner, jobs: list[Job]) -> list[Job]:
    """Wait until it is in the bundle; all of its jobs."""
    _load_what_follows()
    _listen(jobs, runner)
    if options.quick and not any(job.good for job in jobs if job.source.member == look.NVML_MEMBER):
        jobs += [runner.start(source, name) for source in look.more_sources(machine, _patience(options, jobs))]
    runner.run(jobs)
    return jobs


def _load_what_follows() -> None:
    """Here the children are at work and there is time for it."""
    for name in ("around", "logs", "supervisors"):
        import_module(f"gpudiag.collect.{name}")


def _patience(options: Options, jobs: Sequence[Job]) -> float:
    stuck = any(job.outcome == "timed_out" for job in jobs if job.source.member in look.GPU_MEMBERS)
    return min(_STUCK_DEADLINE_S, options.gpu_deadline_s) if stuck else options.gpu_deadline_s


def _around(options: Options, machine: Machine) -> Following:
    """What is asked when the processes of interest are known."""

    def sources(text: str) -> Sequence[Source]:
        from gpudiag.collect import around

        interest = figures.written_pids(text)
        return [around.source(machine, interest, logs=not options.logs)] if interest else []

    return sources


def _listen(jobs: list[Job], runner: Runner) -> None:
    """Tell the scan of the processes what NVML has told."""
    asked = [job for job in jobs if job.source.member == look.NVML_MEMBER]
    runner.run(asked, until=time.monotonic() + look.NVML_FIRST_S)
    for job in jobs:
        if job.source.listens:
            runner.tell(job, look.told((os.getpid(), *runner.pids), figures.booked_mib(asked)))


def clocks() -> Clocks:
    """The instant of the call on all clocks."""
    return Clocks(time.time_ns(), time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))


def start_record(options: Options, names: Sequence[str], machine: Machine) -> Start:
    """Who looks at which machine."""
    uid = os.geteuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = None
    here = own(machine.proc)
    return Start(
        tool_version=__version__,
        host=os.uname().nodename,
        boot_id=here.boot_id,
        clocks=clocks(),
        pids=tuple(dict.fromkeys((*here.pids, *options.callers.seen_from(here)))),
        uid=uid,
        user=user,
        pid_namespace=here.pid_namespace,
        argv=options.argv,
        looks=tuple(names),
    )
