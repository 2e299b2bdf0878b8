"""The command of ``run``: exactly as typed, in a process group of its own, its output passed on and kept."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from gpudiag.collect import outputs
from gpudiag.collect.child import close_all_but
from gpudiag.collect.foreground import Foreground
from gpudiag.collect.script_text import script_text

SHELLS = ("bash", "dash", "sh", "zsh", "ksh")
"""Those whose ``-c`` the explanation understands."""
_KEPT = 1 << 20
"""Bytes of each output that are kept."""
_CHUNK = 1 << 16
_LAST_WORDS_S = 0.3
"""Output that is still open so long after the command belongs to something that it left running."""


class Line(NamedTuple):
    """A command as it was typed."""

    text: str
    """For a shell; empty: ``words`` are run as they are."""
    words: tuple[str, ...]

    @classmethod
    def typed(cls, words: Sequence[str]) -> Line:
        """One word is a line for the shell, as with ssh; several are a program and its arguments."""
        return cls(words[0], ()) if len(words) == 1 else cls("", tuple(words))

    def shell(self) -> str:
        """The user's own shell, where it is one that takes ``-c`` as all do."""
        own = os.environ.get("SHELL", "")
        return own if Path(own).name in SHELLS and os.access(own, os.X_OK) else "/bin/sh"

    def argv(self) -> tuple[str, ...]:
        """What is executed."""
        return self.words or (self.shell(), "-c", self.text)


class Begun(NamedTuple):
    """A command that runs."""

    line: Line
    at: str
    pid: int
    """Of the process that was started for it."""
    script: str | None
    """Text of the script that it runs."""

    def record(self) -> dict[str, object]:
        """As ``kill-commands.json`` has it, as far as it is known."""
        line = self.line
        command: dict[str, object] = {"argv": list(line.words)}
        if line.text:
            command = {"cmd": line.text, "shell": [line.shell(), "-c"]}
        script = {} if self.script is None else {"script_text": self.script}
        return {**command, **script, "t0": self.at, "pid": self.pid, "source": "recorded"}


class Done(NamedTuple):
    """How the command went."""

    begun: Begun
    ended: str
    exit_code: int
    """Negative: the signal that ended it."""
    seconds: float
    out: str
    err: str
    cut: bool
    """More was printed than was kept: that something does not stand in it says nothing."""

    def record(self) -> dict[str, object]:
        """As ``kill-commands.json`` has it."""
        printed = {"out": self.out, "err": self.err, **({"output_cut": True} if self.cut else {})}
        return {**self.begun.record(), "t1": self.ended, "rc": self.exit_code, **printed}


class Command:
    """It runs from the moment this is made. ``OSError``: it cannot be started."""

    def __init__(self, line: Line) -> None:
        channels = [outputs.channel(1), outputs.channel(2)]
        self._kept = [os.memfd_create("output"), os.memfd_create("output")]
        self._relay = _relay([reading for reading, _ in channels], self._kept)
        self._relay_gone = False
        self._foreground = Foreground()
        script = script_text(line.text, line.words)
        begun = _now()
        self._start = time.monotonic()
        try:
            self._process = subprocess.Popen(
                line.argv(), stdout=channels[0][1], stderr=channels[1][1], preexec_fn=self._lead
            )
        finally:
            for reading, writing in channels:
                os.close(reading)
                os.close(writing)
        self.begun = Begun(line, begun, self._process.pid, script)

    @property
    def pids(self) -> tuple[int, ...]:
        """Who passes the output on: one of the recorder's own."""
        return (self._relay,)

    def poll(self) -> bool:
        """It has ended. Where it was stopped on the user's terminal, this waits until it goes on."""
        if self._process.poll() is not None:
            return True
        if self._was_stopped():
            self._foreground.suspend(self._process.pid)
        return False

    def _was_stopped(self) -> bool:
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:  # It has ended just now; a zombie cannot be waited for as one that was stopped.
            return False

    def send(self, number: int) -> None:
        """Pass a signal on."""
        if not self.poll():
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, number)

    def done(self) -> Done:
        """After its end."""
        ended, seconds = _now(), time.monotonic() - self._start
        self._foreground.take()
        end = time.monotonic() + _LAST_WORDS_S
        while not self._relay_ended() and time.monotonic() < end:
            time.sleep(0.005)
        out, err = (os.pread(kept, _KEPT, 0) for kept in self._kept)
        cut = max(len(out), len(err)) == _KEPT
        code = self._process.returncode
        return Done(
            self.begun, ended, code, seconds, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), cut
        )

    def _lead(self) -> None:
        """In the child: ``kill 0`` and a ^C are about the command and what it started, and not about the recorder."""
        os.setpgid(0, 0)
        self._foreground.take()

    def _relay_ended(self) -> bool:
        if not self._relay_gone:
            self._relay_gone = os.waitpid(self._relay, os.WNOHANG)[0] != 0
        return self._relay_gone


def _relay(pipes: Sequence[int], kept: Sequence[int]) -> int:
    """A process that passes output on until nobody writes any more, also when the recorder has gone: what the command
    left running must not lose its output.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTOU, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        close_all_but({0, 1, 2, *pipes, *kept})
        _pass_on(list(zip(pipes, (1, 2), kept)))
    finally:
        os._exit(0)


def _pass_on(ways: Sequence[tuple[int, int, int]]) -> None:
    with selectors.DefaultSelector() as selector:
        left = {memory: _KEPT for _, _, memory in ways}
        for source, target, memory in ways:
            selector.register(source, selectors.EVENT_READ, (target, memory))
        while selector.get_map():
            for key, _ in selector.select():
                target, memory = key.data
                data = outputs.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(key.fd)
                    continue
                outputs.copy_size(target, key.fd)
                left[memory] -= os.write(memory, data[: left[memory]])
                with contextlib.suppress(OSError):  # Who read it has gone; the command goes on.
                    rest = memoryview(data)
                    while rest:
                        rest = rest[os.write(target, rest) :]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")
