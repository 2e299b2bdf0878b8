"""One far host: an ssh process, what is sent to it, and what comes back."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Callable

from gpudiag.bundle.reader import FILE_CAP, read_contents
from gpudiag.bundle.sinks import PartialFile, partial_path
from gpudiag.collect.destination import Destination
from gpudiag.collect.far import MARK, Status
from gpudiag.collect.zipped import LOADER

_CONNECT_S = 10
_CHUNK = 1 << 16
_NOISE_CAP = 1 << 16
"""Bytes of login scripts in front of the bundle."""
_LINES_CAP = 300
"""Lines of a host that are shown."""
_LINE_CAP = 500
_GRACE_S = 0.5
"""A pipe that is still open so long after ssh has ended is held by a shared connection of the user's."""
_SSH_FAILED = 255
_NOT_FOUND = (126, 127)
_OPTIONS = (
    # No terminal, no agent, no X there; nothing that the user's configuration would start or forward besides.
    *("-T", "-a", "-x"),
    *("-o", f"ConnectTimeout={_CONNECT_S}", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
    *("-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none"),
    # A shared connection of the user's is used, but none is left behind.
    *("-o", "ControlMaster=no"),
)


@dataclass(frozen=True)
class Result:
    """What came of one host."""

    label: str
    path: Path | None
    """Of the bundle, or of the part of one; ``None``: nothing came."""
    written: bool
    """The bundle is whole."""
    answered: bool
    """A source told something about a GPU there."""
    seconds: float
    words: str
    """What holds memory there, or why the bundle is not whole."""


@dataclass(frozen=True)
class Call:
    """How one host is called."""

    destination: Destination
    path: Path
    python: str
    deadline_s: float
    may_ask: bool
    """ssh may ask the person for a password. The clock then begins when the far side does."""
    program: Callable[[int], bytes]
    """What is sent, given the PID of the ssh process."""

    def argv(self) -> list[str]:
        """The command line of ssh. What is to be done travels through the pipe, not through a shell."""
        asks = () if self.may_ask else ("-o", "BatchMode=yes")
        return ["ssh", *_OPTIONS, *asks, "--", self.destination.text, f"{self.python} -I -c '{LOADER}'"]


class Session:
    """From the start of ssh to a result. ``OSError`` when it is made: ssh cannot be started."""

    def __init__(self, call: Call, selector: selectors.BaseSelector, say: Callable[[str], None]) -> None:
        self.result: Result | None = None
        """``None`` while it runs."""
        self._call = call
        self._selector = selector
        self._begun = time.monotonic()
        self._clock = None if call.may_ask else self._begun
        self._exited: float | None = None
        self._incoming = _Incoming(call.path)
        self._told = _Told(f"gpudiag: {call.destination.label}: ", say)
        # In a session of its own neither it nor the ssh of a jump host can ask on the terminal, and a ^C there is for
        # the collector alone.
        self._process = subprocess.Popen(
            call.argv(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=not call.may_ask,
            env=None if call.may_ask else {**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
        )
        self._unsent = memoryview(call.program(self._process.pid))
        for pipe, event, serve in (
            (self._process.stdin, selectors.EVENT_WRITE, self._send),
            (self._process.stdout, selectors.EVENT_READ, self._receive),
            (self._process.stderr, selectors.EVENT_READ, self._hear),
        ):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, event, serve)

    def check(self) -> None:
        """Is it over?"""
        if self.result is not None:
            return
        now = time.monotonic()
        if self._clock is None and self._incoming.begun:
            self._clock = now
        if self._exited is None and self._process.poll() is not None:
            self._exited = now
        if self._exited is not None:
            if not self._open(self._process.stdout, self._process.stderr) or now - self._exited > _GRACE_S:
                self._finish()
        elif self._clock is not None and now - self._clock > self._call.deadline_s:
            self.stop(f"no end within {self._call.deadline_s:g} s")

    def stop(self, because: str) -> None:
        """End it and keep what has come."""
        if self.result is None:
            self._end()
            self._close()
            self._result(None, because)

    def _send(self, pipe: IO[bytes]) -> None:
        """The pipe stays open behind the program: the far side ends when it closes."""
        try:
            self._unsent = self._unsent[os.write(pipe.fileno(), self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = memoryview(b"")  # It has ended, and says why on another pipe.
        if not self._unsent:
            self._selector.unregister(pipe)

    def _receive(self, pipe: IO[bytes]) -> None:
        try:
            self._incoming.take(self._read(pipe))
        except OSError as error:
            self.stop(f"{self._call.path} cannot be written: {error.strerror or error}")
        except ValueError as error:
            self.stop(str(error))

    def _hear(self, pipe: IO[bytes]) -> None:
        self._told.take(self._read(pipe))

    def _read(self, pipe: IO[bytes]) -> bytes:
        try:
            data = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            self._selector.unregister(pipe)
        return data

    def _open(self, *pipes: IO[bytes] | None) -> bool:
        served = self._selector.get_map()
        return any(pipe in served for pipe in pipes if pipe is not None)

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                if self._open(pipe):
                    self._selector.unregister(pipe)
                pipe.close()
        self._told.flush()

    def _end(self) -> None:
        if self._process.poll() is not None:
            return  # its PID may be another's by now
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                if self._call.may_ask:
                    self._process.send_signal(number)
                else:
                    os.killpg(self._process.pid, number)  # with a ProxyCommand, if there is one
                self._process.wait(_GRACE_S)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue
            return

    def _finish(self) -> None:
        """ssh has ended by itself."""
        self._close()
        status, code = self._told.status, self._process.returncode
        if status is None or code != 0:
            self._result(None, self._why(code))
        else:
            self._result(status, self._incoming.flaw())

    def _result(self, status: Status | None, flaw: str | None) -> None:
        whole = status is not None and flaw is None
        path = self._incoming.close(whole=whole)
        self.result = Result(
            label=self._call.destination.label,
            path=path,
            written=whole,
            answered=status is not None and status.answered,
            seconds=time.monotonic() - self._begun,
            words=status.holds if status is not None and flaw is None else flaw or "",
        )

    def _why(self, code: int) -> str:
        last = self._told.last
        if self._incoming.begun:
            end = f"ssh: {last}" if code == _SSH_FAILED and last else f"exit code {code}"
            return f"the connection ended before the bundle did ({end})"
        if code == _SSH_FAILED:
            return last or f"ssh ended with exit code {code} and no word"
        if code in _NOT_FOUND or "not found" in last.lower():
            return f"no {self._call.python} in the PATH of a command over ssh there; name one with --python"
        return last or f"the collector could not be started there: exit code {code}"


class _Incoming:
    """The bundle as it comes; the file is made when there is something to put into it."""

    def __init__(self, path: Path) -> None:
        self.begun = False
        """The far side has started."""
        self._path = path
        self._noise = b""
        self._size = 0
        self._file: PartialFile | None = None

    def take(self, data: bytes) -> None:
        """``OSError``: it cannot be written. ``ValueError``: it is no bundle, with the sentence."""
        if not self.begun:
            noise, mark, data = (self._noise + data).partition(MARK)
            if not mark:
                self._noise = noise
                if len(noise) > _NOISE_CAP:
                    raise ValueError(f"more than {_NOISE_CAP >> 10} KiB of other output before the bundle")
                return
            self.begun = True
        self._size += len(data)
        if self._size > FILE_CAP:
            raise ValueError(f"a bundle of more than {FILE_CAP >> 20} MiB")
        if data:
            if self._file is None:
                self._file = PartialFile(self._path)
            self._file.put(data)

    def flaw(self) -> str | None:
        """Why what has come is not a whole bundle."""
        if self._file is None:
            return "no bundle came"
        contents = read_contents(partial_path(self._path))
        if contents.flaws:
            return f"the bundle was damaged on its way: {contents.flaws[0].reason}"
        return None if contents.end is not None else "the bundle has no end"

    def close(self, *, whole: bool) -> Path | None:
        """Where it lies."""
        if self._file is None:
            return None
        if not whole:
            self._file.close()
            return partial_path(self._path)
        self._file.finish()
        return self._path


class _Told:
    """Standard error of ssh and of the far side, shown line by line."""

    def __init__(self, front: str, say: Callable[[str], None]) -> None:
        self.status: Status | None = None
        self.last = ""
        """The last line that was not the collector's own: a shell's or ssh's complaint."""
        self._front = front
        self._say = say
        self._pending = b""
        self._shown = 0

    def take(self, data: bytes) -> None:
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._line(line)
        # What has no end is no line of ours.
        self._pending = self._pending[-(_CHUNK):]

    def flush(self) -> None:
        """There is no more."""
        self._line(self._pending)
        self._pending = b""

    def _line(self, data: bytes) -> None:
        line = data.decode("utf-8", "replace").strip("\r")
        status = Status.from_line(line)
        if status is not None:
            self.status = status
            return
        own = line.startswith("gpudiag: ")
        line = (line[len("gpudiag: ") :] if own else line)[:_LINE_CAP]
        if not line.strip():
            return
        self.last = line.strip()
        self._shown += 1
        if self._shown <= _LINES_CAP:
            self._say(self._front + line)
        elif self._shown == _LINES_CAP + 1:
            self._say(f"{self._front}more lines follow and are not shown")
