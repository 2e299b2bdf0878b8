"""``gpudiag collect``, with nothing but the standard library: it also runs where no other package is."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from gpudiag.bundle.sinks import PARTIAL
from gpudiag.collect.extras import sources as extra_sources
from gpudiag.collect.machine import Machine
from gpudiag.collect.recording import Options, Recorded, record
from gpudiag.collect.runner import Job
from gpudiag.collect.secrets import RowSecrets
from gpudiag.redact.redactor import Redactor

EXIT_WRITTEN = 0
EXIT_WRITE = 1
EXIT_USAGE = 2
EXIT_NO_GPU = 4
EXIT_INTERRUPTED = 130
_NAMED_PIDS = 4
"""PIDs in the last line; the report names them all."""
_HISTORY_CAP = 8 << 20


def main(arguments: Sequence[str] | None = None, machine: Machine | None = None) -> int:
    """Collect and say where it is; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options, chosen = _options(words)
    signal.signal(signal.SIGTERM, _interrupt)
    # A session that drops is the kind of thing that is being recorded.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    machine = Machine() if machine is None else machine
    _say("gpudiag: looking; nothing on this machine is changed")
    try:
        done = record(options, machine, extra_sources, None if chosen.no_redact else RowSecrets, _Progress())
    except KeyboardInterrupt:
        _say(f"gpudiag: interrupted; what was seen until then is in {options.path}{PARTIAL}")
        return EXIT_INTERRUPTED
    except OSError as error:
        _say(f"gpudiag: {options.path} cannot be written: {error.strerror or error}. {_rest(options.path)}")
        return EXIT_WRITE
    _report(done, root=machine.root)
    if chosen.explain:
        return _explain(done)
    return EXIT_WRITTEN if done.answered else EXIT_NO_GPU


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpudiag collect",
        description="Look at this machine's GPUs and processes and write a bundle. Changes nothing.",
        epilog="Exit codes: 0 written, 1 not written, 2 usage, 4 written but no GPU source answered.",
    )
    add = parser.add_argument
    add(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="default: gpudiag-HOST-TIME.tgz in this directory, or in /tmp where it is read-only",
    )
    add("--quick", action="store_true", help="one look, no samples in between")
    add("--duration", metavar="S", type=_seconds, default=3.0, help="from the first to the last look (default 3)")
    add("--interval", metavar="S", type=_seconds, help="between two looks (default: the duration, at most 3)")
    add("--kill", metavar="COMMAND", action="append", default=[], help="a kill command that was run; repeatable")
    add("--at", metavar="TIME", action="append", default=[], help="when it was run: 2026-02-20T19:00:06Z")
    add("--log", metavar="FILE", action="append", default=[], help="a log of the server; repeatable")
    add("--history", metavar="-", choices=["-"], help="read the shell's history: history | gpudiag collect --history -")
    add("--explain", action="store_true", help="explain the bundle at once")
    add("--no-redact", action="store_true", help="leave secrets in the bundle; its name says so")
    return parser


def _options(words: Sequence[str]) -> tuple[Options, argparse.Namespace]:
    parser = _parser()
    chosen = parser.parse_args(words)
    if chosen.at and len(chosen.at) != len(chosen.kill):
        parser.error(f"{len(chosen.kill)} --kill but {len(chosen.at)} --at: give every --kill its --at, or none")
    try:
        times = [_instant(text) for text in chosen.at] or [None] * len(chosen.kill)
    except ValueError as error:
        parser.error(f"--at {error} is not a time; write it like 2026-02-20T19:00:06Z")
    path = chosen.output or _default_path("-unredacted" if chosen.no_redact else "")
    if os.path.lexists(path):
        parser.error(f"{path} exists already")
    duration = 0.0 if chosen.quick else chosen.duration
    options = Options(
        path=path,
        duration_s=duration,
        interval_s=chosen.interval or min(3.0, duration or 3.0),
        argv=tuple(words if chosen.no_redact else Redactor().argv(words)),
        kills=tuple(zip(chosen.kill, times)),
        logs=tuple(chosen.log),
        history=tuple(sys.stdin.read(_HISTORY_CAP).splitlines()) if chosen.history else None,
    )
    return options, chosen


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise ValueError(text)
    return value


def _instant(text: str) -> str:
    """RFC 3339 in UTC; a time without a zone is UTC."""
    moment = datetime.fromisoformat(re.sub(r"[zZ]\Z", "+00:00", text))
    moment = moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
    return moment.isoformat()


def _default_path(mark: str) -> Path:
    """In this directory, or with the temporary files where nothing can be written here."""
    host = re.sub(r"[^A-Za-z0-9.-]", "_", os.uname().nodename)[:64] or "host"
    name = f"gpudiag-{host}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}{mark}.tgz"
    return Path(name) if os.access(".", os.W_OK | os.X_OK) else Path(tempfile.gettempdir()) / name


def _interrupt(number: int, frame: object) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


class _Progress:
    """A line a look, and one for every source that did not go well; what repeats itself is said once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, job: Job) -> None:
        folder = job.member.rpartition("/")[0]
        if folder:
            self._once(f"gpudiag: {folder}")
        if job.outcome != "ok":
            self._once(f"gpudiag:   {job.source.name}: {job.outcome}" + (f", {job.because}" if job.because else ""))
        elif job.exit_code:
            self._once(f"gpudiag:   {job.source.name}: exit code {job.exit_code}")

    def _once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            _say(sentence)


def _report(done: Recorded, *, root: bool) -> None:
    if not root:
        _say(
            "gpudiag: not root: descriptors, signal masks and kernel stacks of other users' processes and the kernel "
            "log are missing; `sudo gpudiag collect` adds them"
        )
    _say(f"gpudiag: wrote {done.path} in {done.seconds:.1f} s; {_holds(done)}; next: gpudiag explain {done.path}")


def _holds(done: Recorded) -> str:
    if not done.answered or not done.used_mib:
        return "no GPU source answered"
    used = ", ".join(f"GPU {index} {size:.0f} MiB" for index, size in sorted(done.used_mib.items()))
    largest = sorted(done.booked_mib.items(), key=lambda pair: -pair[1])
    names = ", ".join(f"PID {pid} {size:.0f} MiB" for pid, size in largest[:_NAMED_PIDS])
    more = f" and {len(largest) - _NAMED_PIDS} more" if len(largest) > _NAMED_PIDS else ""
    return f"used: {used}; booked: {names or 'on no PID'}{more}"


def _rest(path: Path) -> str:
    partial = Path(f"{path}{PARTIAL}")
    return f"What was seen until then is readable: {partial}" if partial.exists() else "Nothing was written."


def _explain(done: Recorded) -> int:
    """Go on as ``gpudiag explain``; returns only where it is not installed."""
    if find_spec("typer") is not None and find_spec("polars") is not None:
        sys.stdout.flush()
        go_on = "from gpudiag.cli import main; main()"
        os.execv(sys.executable, [sys.executable, "-c", go_on, "explain", str(done.path)])
    _say("gpudiag: the bundle cannot be explained here: only the collector is installed")
    return EXIT_WRITTEN if done.answered else EXIT_NO_GPU


def _say(sentence: str) -> None:
    try:
        sys.stderr.write(sentence.encode("ascii", "backslashreplace").decode("ascii") + "\n")
        sys.stderr.flush()
    except OSError:
        return  # The terminal has gone; the bundle matters.
