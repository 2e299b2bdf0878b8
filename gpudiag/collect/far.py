"""The collector on a far machine: the bundle goes back through standard output, and nothing stays behind."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NoReturn, cast

from gpudiag.collect.extras import sources as extra_sources
from gpudiag.collect.identity import Own
from gpudiag.collect.machine import Machine
from gpudiag.collect.options import chosen
from gpudiag.collect.recording import Recorded, record
from gpudiag.collect.secrets import RowSecrets
from gpudiag.collect.telling import Progress, holds, say, without_root

MARK = b"\n-- the bundle of gpudiag begins behind this line --\n"
"""Goes before the bundle: a login script may have written something."""
STATUS = "gpudiag-collected "
"""Begins the last line on standard error; JSON follows."""
_STDIN = 0
_HOLDS_CAP = 1000


@dataclass(frozen=True)
class Request:
    """What the near side asks for."""

    words: tuple[str, ...]
    """Options of ``gpudiag collect``."""
    callers: Own
    """The near side's own processes."""
    ends_after_s: int
    """The far side ends by itself then, whatever became of the connection."""
    as_root: str
    """The command that would look with root's rights."""

    def to_json(self) -> str:
        """As it travels."""
        return json.dumps({**asdict(self), "callers": self.callers._asdict()})

    @staticmethod
    def from_json(text: str) -> Request:
        """Both sides run the same release."""
        given = json.loads(text)
        callers = given["callers"]
        return Request(
            tuple(given["words"]),
            Own(callers["boot_id"], callers["pid_namespace"], tuple(callers["pids"])),
            given["ends_after_s"],
            given["as_root"],
        )


@dataclass(frozen=True)
class Status:
    """What the far side says at its end; the near side believes no more of it than its types."""

    answered: bool
    """A source told something about a GPU."""
    holds: str
    """What holds memory, in half a sentence."""
    seconds: float

    @staticmethod
    def from_line(line: str) -> Status | None:
        """``None``: the line is none, or not one of ours."""
        if not line.startswith(STATUS):
            return None
        try:
            value: object = json.loads(line[len(STATUS) :])
        except (ValueError, RecursionError):
            return None
        given = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        answered, words, seconds = given.get("answered"), given.get("holds"), given.get("seconds")
        if not isinstance(answered, bool) or not isinstance(words, str) or not isinstance(seconds, float):
            return None
        return Status(answered, words[:_HOLDS_CAP], seconds)


def main(arguments: Sequence[str]) -> int:
    """``arguments``: one request. The exit code is 0 if the bundle is whole."""
    (text,) = arguments
    request = Request.from_json(text)
    _end_with_the_connection(request.ends_after_s)
    asked = chosen(["-o", "-", *request.words])
    options = asked.recording._replace(callers=request.callers)
    machine = Machine()
    os.write(1, MARK)
    try:
        done = record(options, machine, extra_sources, RowSecrets if asked.redact else None, Progress())
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        say(f"gpudiag: the bundle could not be sent: {error.strerror or error}")
        return 1
    _report(done, machine.root, request.as_root)
    return 0


def _report(done: Recorded, root: bool, as_root: str) -> None:
    if not root:
        say(without_root(as_root))
    status = Status(done.answered, holds(done), done.seconds)
    say(STATUS + json.dumps(asdict(status)))


def _end_with_the_connection(ends_after_s: int) -> None:
    """A connection that is lost closes standard input, and nobody is left to look for."""
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    signal.alarm(ends_after_s)
    signal.signal(signal.SIGIO, _input_changed)
    try:
        fcntl.fcntl(_STDIN, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(_STDIN, fcntl.F_GETFL)
        fcntl.fcntl(_STDIN, fcntl.F_SETFL, flags | os.O_ASYNC)
    except OSError:
        return  # Not every kernel tells; the alarm remains.
    _input_changed(signal.SIGIO, None)


def _input_changed(number: int, frame: object) -> None:
    if select.select([_STDIN], [], [], 0)[0] and not os.read(_STDIN, 4096):
        _interrupt(number, frame)


def _interrupt(number: int, frame: object) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt
