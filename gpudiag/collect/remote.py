"""Several far hosts at once, each for itself: one that is down costs the others nothing."""

from __future__ import annotations

import os
import selectors
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from gpudiag.collect.destination import Destination
from gpudiag.collect.far import Request
from gpudiag.collect.identity import Own, own
from gpudiag.collect.options import Chosen, default_name
from gpudiag.collect.session import Call, Result, Session
from gpudiag.collect.telling import say
from gpudiag.collect.zipped import far_program

_AT_ONCE = 32
_POLL_S = 0.1
_OUTSIDE_LOOKS_S = 60.0
"""For the connection, the start of Python, and the sources beside the looks."""
_LOOK_S = 16.0
"""The longest that a look takes when nothing answers."""


@dataclass(frozen=True)
class Gathered:
    """What came of all hosts."""

    hosts: tuple[Result, ...]
    """In the order in which they were named."""
    interrupted: bool

    @property
    def paths(self) -> tuple[Path, ...]:
        """Bundles, and parts of bundles."""
        return tuple(host.path for host in self.hosts if host.path is not None)


def collect(asked: Chosen) -> Gathered:
    """Ask all hosts and say what came of it. On an interrupt what has come until then stays."""
    calls = _calls(asked)
    say(f"gpudiag: looking at {', '.join(call.destination.label for call in calls)}; nothing there is changed")
    fleet = _Fleet(calls)
    try:
        fleet.run()
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # what is left to do is short
        fleet.stop()
    gathered = Gathered(tuple(fleet.results()), fleet.interrupted)
    _tell(gathered, calls)
    return gathered


class _Fleet:
    """The sessions, some at a time."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.interrupted = False
        self._calls = calls
        self._selector = selectors.DefaultSelector()
        self._running: list[Session] = []
        self._results: dict[str, Result] = {}

    def run(self) -> None:
        waiting = list(self._calls)
        while waiting or self._running:
            while waiting and len(self._running) < _AT_ONCE:
                self._start(waiting.pop(0))
            for key, _ in self._selector.select(_POLL_S):
                pipe = cast("IO[bytes]", key.fileobj)
                if not pipe.closed:  # what was read a moment ago may have ended its session
                    key.data(pipe)
            for session in self._running:
                session.check()
            self._keep()

    def stop(self) -> None:
        self.interrupted = True
        for session in self._running:
            session.stop("interrupted")
        self._keep()

    def results(self) -> list[Result]:
        """One for each call."""
        none = Result("", None, written=False, answered=False, seconds=0.0, words="interrupted")
        labels = [call.destination.label for call in self._calls]
        return [self._results.get(label, replace(none, label=label)) for label in labels]

    def _start(self, call: Call) -> None:
        try:
            self._running.append(Session(call, self._selector, say))
        except OSError as error:
            words = f"ssh cannot be started: {error.strerror or error}"
            label = call.destination.label
            self._results[label] = Result(label, None, written=False, answered=False, seconds=0.0, words=words)

    def _keep(self) -> None:
        for session in self._running:
            if session.result is not None:
                self._results[session.result.label] = session.result
        self._running = [session for session in self._running if session.result is None]


def _calls(asked: Chosen) -> list[Call]:
    options = asked.recording
    deadline = asked.deadline_s
    if deadline is None:
        deadline = _OUTSIDE_LOOKS_S + options.duration_s + _LOOK_S * len(options.looks())
    here = own()
    # Several hosts would ask for their passwords in one terminal, all at the same time.
    may_ask = len(asked.hosts) == 1 and _terminal()
    return [
        Call(
            destination=host,
            path=options.path if asked.folder is None else asked.folder / default_name(host.label, asked.mark),
            python=asked.python,
            deadline_s=deadline,
            may_ask=may_ask,
            program=_Program(asked, host, here, deadline),
        )
        for host in asked.hosts
    ]


@dataclass(frozen=True)
class _Program:
    """What is sent to a host."""

    asked: Chosen
    host: Destination
    here: Own
    deadline_s: float

    def __call__(self, ssh: int) -> bytes:
        request = Request(
            words=self.asked.far_words,
            callers=self.here._replace(pids=(*self.here.pids, ssh)),
            ends_after_s=int(self.deadline_s) + 10,
            as_root=f"gpudiag collect --host root@{self.host.label}",
        )
        return far_program([request.to_json()])


def _terminal() -> bool:
    """There is one on which ssh can ask."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _tell(gathered: Gathered, calls: Sequence[Call]) -> None:
    """One line a host, and what to do next."""
    rows = [(host.label, _outcome(host), host.words) for host in gathered.hosts]
    wide = max(len(label) for label, _, _ in rows)
    for (label, outcome, words), host in zip(rows, gathered.hosts):
        where = f" in {host.path}" if host.path is not None else ""
        say(f"gpudiag: {label:<{wide}}  {outcome:<7} {host.seconds:6.1f} s  {words}{where}")
    refused = ("Permission denied", "Host key verification failed")
    if not calls[0].may_ask and any(word in host.words for host in gathered.hosts for word in refused):
        say("gpudiag: ssh may ask for a password or about a host key only for one --host on a terminal; or load a key")
    if gathered.paths:
        say(f"gpudiag: next: gpudiag explain {shlex.join(map(str, gathered.paths))}")


def _outcome(host: Result) -> str:
    return "written" if host.written else "failed" if host.path is None else "cut off"
