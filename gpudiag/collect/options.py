"""The words behind ``gpudiag collect``, checked before anything is looked at."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from gpudiag.collect.destination import Destination, destinations
from gpudiag.collect.recording import STANDARD_OUTPUT, Options
from gpudiag.redact.redactor import Redactor

_HISTORY_CAP = 8 << 20
_PYTHON = re.compile(r"[A-Za-z0-9_/.][A-Za-z0-9_/.+-]{0,199}\Z")
"""A program's name or path that no shell reads as anything else."""
_EPILOG = """\
Exit codes: 0 written, 1 not written, 2 usage, 4 written but no GPU source answered, 5 a far host failed, 130
interrupted. With --explain the code is that of explain, except that 1, 5 and 130 stay."""


class Chosen(NamedTuple):
    """What a person has asked for."""

    recording: Options
    """Of this machine, or of each far one (but for the path)."""
    hosts: tuple[Destination, ...]
    """Empty: this machine."""
    folder: Path | None
    """Where the bundles of far hosts go; ``None``: ``recording.path`` is the one host's file."""
    own_name: bool
    """Nobody has named the bundle's file, so any name will do."""
    far_words: tuple[str, ...]
    """The options that hold on a far host too, as words."""
    deadline_s: float | None
    """For the whole of each far host."""
    python: str
    """Of the far host."""
    redact: bool
    explain: bool
    print_collector: bool

    def beside(self) -> Chosen:
        """The same under a name that nobody else takes."""
        path = self.recording.path
        renamed = self.recording._replace(path=path.with_name(f"{path.stem}-{os.getpid()}{path.suffix}"))
        return self._replace(recording=renamed, own_name=False)

    @property
    def mark(self) -> str:
        """Part of the names of bundles with secrets in them."""
        return "" if self.redact else "-unredacted"


def chosen(words: Sequence[str]) -> Chosen:
    """Exit with code 2 and one sentence where the words make no sense."""
    parser = new_parser()
    given = parser.parse_args(words)
    try:
        hosts = destinations(given.host)
        kills = tuple(zip(given.kill, _times(given)))
        _fit(given)
        path, folder = _targets(given, hosts)
    except ValueError as error:
        parser.error(str(error))
    duration = 0.0 if given.quick else given.duration
    recording = Options(
        path=path,
        duration_s=duration,
        interval_s=given.interval or min(3.0, duration or 3.0),
        argv=tuple(words if given.no_redact else Redactor().argv(words)),
        kills=kills,
        logs=tuple(given.log),
        history=tuple(sys.stdin.read(_HISTORY_CAP).splitlines()) if given.history else None,
        ring=given.ring,
    )
    return Chosen(
        recording=recording,
        hosts=hosts,
        folder=folder,
        own_name=not hosts and (given.output is None or path != given.output),
        far_words=tuple(_far_words(given)),
        deadline_s=given.deadline,
        python=given.python or "python3",
        redact=not given.no_redact,
        explain=given.explain,
        print_collector=given.print_collector,
    )


def default_name(host: str, mark: str) -> str:
    """A bundle's name: ``gpudiag-HOST-TIME.tgz``."""
    shown = re.sub(r"[^A-Za-z0-9.-]", "_", host)[:64] or "host"
    return f"gpudiag-{shown}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}{mark}.tgz"


def new_parser() -> argparse.ArgumentParser:
    """The words that ``gpudiag collect`` takes."""
    parser = argparse.ArgumentParser(
        prog="gpudiag collect",
        description="Look at this machine's GPUs and processes, or at those of far hosts, and write a bundle. "
        "Changes nothing.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="default: gpudiag-HOST-TIME.tgz in this directory, or in /tmp where it is read-only; a directory; "
        "or - for standard output",
    )
    add("--quick", action="store_true", help="one look, no samples in between")
    add("--duration", metavar="S", type=_seconds, default=3.0, help="from the first to the last look (default 3)")
    add("--interval", metavar="S", type=_seconds, help="between two looks (default: the duration, at most 3)")
    add(
        "--kill",
        metavar="COMMAND",
        action="append",
        default=[],
        help="a kill command that was run, whole, with its ssh or bash -c; repeatable",
    )
    add("--at", metavar="TIME", action="append", default=[], help="when it was run: 2026-02-20T19:00:06Z")
    add("--log", metavar="FILE", action="append", default=[], help="a log of the server; repeatable")
    add("--history", metavar="-", choices=["-"], help="read the shell's history: history | gpudiag collect --history -")
    add("--ring", metavar="DIR", help="of gpudiag watch, where that was given another directory")
    add("--explain", action="store_true", help="explain what was written at once")
    add("--no-redact", action="store_true", help="leave secrets in the bundle; its name says so")
    add(
        "--host",
        metavar="[USER@]HOST",
        action="append",
        default=[],
        help="look at this host over ssh; repeatable, all at once, one bundle each. It needs python3 and keeps nothing",
    )
    add("--deadline", metavar="S", type=_seconds, help="with --host: the most that each host may take in all")
    add("--python", metavar="PROGRAM", help="with --host: Python 3.9 or newer there (default python3)")
    add("--print-collector", action="store_true", help="print the collector as one Python file to copy by hand")
    return parser


def _times(given: argparse.Namespace) -> list[str | None]:
    """One for every stated kill command."""
    if given.at and len(given.at) != len(given.kill):
        raise ValueError(f"{len(given.kill)} --kill but {len(given.at)} --at: give every --kill its --at, or none")
    return [_instant(text) for text in given.at] or [None] * len(given.kill)


def _fit(given: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if given.host:
        if given.history:
            raise ValueError(
                "--history - reads the history of this machine's shell, not that of a far one; leave it out with --host"
            )
        if given.output == STANDARD_OUTPUT:
            raise ValueError("-o - has room for one machine's bundle; with --host name a directory, or leave it out")
        if given.python and not _PYTHON.match(given.python):
            raise ValueError(f"--python {given.python!r} is not the plain name or path of a program")
    elif given.deadline or given.python:
        raise ValueError(f"{'--deadline' if given.deadline else '--python'} is about far hosts: it needs --host")
    if given.output == STANDARD_OUTPUT and not given.print_collector:
        if given.explain:
            raise ValueError("--explain needs a file: leave -o - out")
        if os.isatty(1):
            raise ValueError("-o - writes a bundle to standard output, and that is a terminal; pipe it into a file")


def _targets(given: argparse.Namespace, hosts: Sequence[Destination]) -> tuple[Path, Path | None]:
    """Where the bundle goes; or a directory, where it is not known yet what it is called."""
    mark = "-unredacted" if given.no_redact else ""
    output: Path | None = given.output
    if len(hosts) > 1 and output is not None and not output.is_dir():
        raise ValueError(f"-o {output}: with several hosts it is the directory of their bundles, and must exist")
    if output is None or output.is_dir():
        folder = output or writable()
        if hosts:
            return folder, folder
        return folder / default_name(os.uname().nodename, mark), None
    if output != STANDARD_OUTPUT and os.path.lexists(output):
        raise ValueError(f"{output} exists already")
    return output, None


def _far_words(given: argparse.Namespace) -> list[str]:
    words = ["--quick"] if given.quick else ["--duration", str(given.duration)]
    if given.interval:
        words += ["--interval", str(given.interval)]
    for name in ("kill", "at", "log"):
        # One word, so that a command that begins with a dash stays a command.
        words += [f"--{name}={value}" for value in getattr(given, name)]
    if given.ring:
        words.append(f"--ring={given.ring}")
    return [*words, "--no-redact"] if given.no_redact else words


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise ValueError(text)
    return value


def _instant(text: str) -> str:
    """RFC 3339 in UTC; a time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]\Z", "+00:00", text))
        moment = moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ValueError(f"--at {text!r} is not a time; write it like 2026-02-20T19:00:06Z") from None
    return moment.isoformat()


def writable() -> Path:
    """This directory, or that of temporary files where nothing can be written here."""
    if os.access(".", os.W_OK | os.X_OK):
        return Path()
    from tempfile import gettempdir

    return Path(gettempdir())
