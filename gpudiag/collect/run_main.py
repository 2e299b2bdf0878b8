"""``gpudiag run -- COMMAND``. Recording needs the standard library only; the explanation is a child's matter."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gpudiag.bundle.sinks import PARTIAL
from gpudiag.collect.command import Done, Line
from gpudiag.collect.disguise import carriers, conceal
from gpudiag.collect.explaining import explain_here
from gpudiag.collect.identity import own
from gpudiag.collect.machine import Machine
from gpudiag.collect.options import default_name, writable
from gpudiag.collect.process_events import NETLINK, POLLING
from gpudiag.collect.recording import Options
from gpudiag.collect.run import TRACE, Ran, Record, Wish, run
from gpudiag.collect.script_text import simple_commands
from gpudiag.collect.secrets import RowSecrets
from gpudiag.collect.telling import Progress, say, without_root
from gpudiag.redact.redactor import Redactor

EXIT_NOT_RUN = 125
"""As with env and timeout: it is not the command's."""
EXIT_INTERRUPTED = 130
_STAYED = (10, 12)
"""Exit codes of ``explain`` that ``--verify`` passes on."""
_AWAY = ("ssh", "kubectl", "pdsh", "srun")
"""What they are told happens elsewhere."""
_EPILOG = """\
COMMAND in one word is a line for your shell, as with ssh; in several it is a program with its arguments. Exit code: the
command's own (128 and the number of the signal that ended it); with --verify 10 if memory is still held, 12 if it is
still being released; 125 it was not run, 2 usage, 130 interrupted twice."""


class _Chosen(NamedTuple):
    wish: Wish
    redact: bool
    explain: bool
    verify: bool


def main(words: Sequence[str]) -> int:
    """Record and explain; the exit code."""
    asked = _chosen(words)
    shown = conceal()
    if shown is not None:
        say(f"gpudiag: this recorder's own command line holds the command's text: a pattern may hit it ({shown})")
    return _run(asked, Machine())


def _run(asked: _Chosen, machine: Machine) -> int:
    path = asked.wish.options.path
    line = asked.wish.line
    for pid, name in carriers(machine.proc, own(machine.proc).pids[1:], (line.text,) if line.text else line.words):
        say(
            f"gpudiag: {name} (PID {pid}) above this recorder carries the command's text: a pattern that matches the "
            f"text hits it, and it may take this session along; the bundle is {path} (or {path}{PARTIAL})"
        )
    if any(Path(command[0]).name in _AWAY for command in simple_commands(line.text, line.words)):
        say(
            "gpudiag: the command hands work to another machine, and it is this one that is looked at: "
            "`gpudiag run` there sees whom the work hits"
        )
    try:
        ran = run(asked.wish, machine, RowSecrets if asked.redact else None, Progress(), _before)
    except KeyboardInterrupt:
        say(f"gpudiag: interrupted; what was seen until then is in {path}{PARTIAL}")
        return EXIT_INTERRUPTED
    except OSError as error:
        rest = f"; what was seen until then is in {path}{PARTIAL}" if Path(f"{path}{PARTIAL}").exists() else ""
        say(f"gpudiag: {error.filename or path}: {error.strerror or error}{rest}")
        return EXIT_NOT_RUN
    _tell(ran, root=machine.root)
    code = _exit_code(ran.done)
    told = explain_here([ran.path], code, output=2) if asked.explain or asked.verify else code
    return told if asked.verify and told in _STAYED else code


def _before(record: Record) -> None:
    instead = {
        NETLINK: "process events over netlink tell who began and ended, not who sent a signal",
        POLLING: "/proc is looked through over and over, which misses short processes and does not tell how one ended",
    }
    if record.way != TRACE:
        told = instead.get(record.way, "the exit code and the two looks have to tell what was hit")
        say(f"gpudiag: no kernel trace ({record.untraced}); {told}")
    say("gpudiag: running the command")


def _tell(ran: Ran, *, root: bool) -> None:
    if not root:
        say(without_root("sudo gpudiag run"))
    settled = {
        "released": f"the memory was released {ran.settled.seconds:.1f} s after the command: the GPUs are free",
        "plateau": "the memory stands still",
        "deadline": f"the memory has not settled within {ran.settled.seconds:.0f} s",
        "interrupted": "the wait for the memory was interrupted",
        "not watched": f"device memory could not be watched ({ran.settled.because or 'the driver does not answer'})",
    }
    say(f"gpudiag: {_ended(ran.done)} after {ran.done.seconds:.1f} s; {settled[ran.settled.how]}; wrote {ran.path}")


def _ended(done: Done) -> str:
    return f"signal {-done.exit_code} ended the command" if done.exit_code < 0 else f"exit code {done.exit_code}"


def _exit_code(done: Done) -> int:
    """As a shell tells it."""
    return 128 - done.exit_code if done.exit_code < 0 else done.exit_code


def _chosen(words: Sequence[str]) -> _Chosen:
    """Exit with code 2 and one sentence where the words make no sense."""
    parser = new_parser()
    place = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:place])
    command = tuple(words[place + 1 :])
    if not command or not command[0].strip():
        parser.error("the command goes behind --, like: gpudiag run -- 'pkill -f PATTERN; sleep 3'")
    path: Path = given.output or writable() / default_name(
        os.uname().nodename, "-unredacted" if given.no_redact else ""
    )
    if os.path.lexists(path):
        parser.error(f"{path} exists already")
    if not os.path.isdir(path.absolute().parent):  # noqa: PTH112 - a folder that may not be looked into is none
        parser.error(f"{path}: the directory does not exist, or may not be looked into")
    shown = ("run", *words) if given.no_redact else ("run", *Redactor().argv(words))
    options = Options(path=path, argv=tuple(shown), logs=tuple(given.log), sample_s=given.sample)
    wish = Wish(Line.typed(command), options, given.settle)
    return _Chosen(wish, redact=not given.no_redact, explain=not given.no_explain, verify=given.verify)


def new_parser() -> argparse.ArgumentParser:
    """The words that ``gpudiag run`` takes before the command."""
    parser = argparse.ArgumentParser(
        prog="gpudiag run",
        usage="gpudiag run [OPTIONS] -- COMMAND",
        description="Run a clean-up command, record everything around it, wait for the memory, and explain.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", type=Path, help="the bundle (default: gpudiag-HOST-TIME.tgz here)")
    add("--settle", metavar="S", type=_seconds, default=60.0, help="watch the memory so long at most (default 60)")
    add("--sample", metavar="S", type=_seconds, default=0.05, help="between two samples of memory (default 0.05)")
    add("--log", metavar="FILE", action="append", default=[], help="a log of the server; repeatable")
    add("--verify", action="store_true", help="exit code 10 or 12 if memory stays")
    add("--no-explain", action="store_true", help="write the bundle only")
    add("--no-redact", action="store_true", help="leave secrets in the bundle; its name says so")
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise ValueError(text)
    return value
