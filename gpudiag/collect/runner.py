"""Run sources side by side, each in a child of its own, and put what they say into the bundle.

A child that is late is killed and left. It is not waited for: what hangs in the driver does not die of SIGKILL.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Iterable
from typing import Callable, cast

from gpudiag.bundle.format import OUTCOME_VALUES
from gpudiag.bundle.writer import BundleWriter, SourceWriter
from gpudiag.collect.ahead import Begun
from gpudiag.collect.child import ENDED, NOT_STARTED, ROW, STARTED, spawn
from gpudiag.collect.secrets import Secrets
from gpudiag.collect.source import Source

_CHUNK = 1 << 16
_POLL_S = 0.02
"""How often it is asked whether a child has ended whose pipe does not tell."""
_SOON_S = 0.0005
"""The same where the pipe has ended: the child is about to."""
_GRACE_S = 0.3
"""A pipe that is still open so long after its child has ended is held by somebody else."""
_LINE_CAP = 4 << 20
"""Bytes of one row. What is longer is no row of any source."""
_KEPT = 1 << 20
"""Bytes of a source that the collector remembers for its own use."""


class Job:
    """A source while it runs, and how it ended."""

    def __init__(self, source: Source, member: str, writer: SourceWriter | None) -> None:
        self.source = source
        self.member = member
        self.writer = writer
        self.started_ns = time.time_ns()
        self.begun = time.monotonic()
        self.pid: int | None = None
        """``None``: it was not run."""
        self.secrets: Secrets | None = None
        """``None``: they stay in."""
        self.pids: list[int] = []
        self.pipe: int | None = None
        self.ear: int | None = None
        """Where the line goes that the source waits for."""
        self.pending = b""
        self.status: int | None = None
        """As ``waitpid`` gives it."""
        self.exited: float | None = None
        """``time.monotonic``."""
        self.told: tuple[str, str | None, int | None] | None = None
        """Outcome, reason and exit code, by the child's own word."""
        self.outcome: str | None = None
        """``None`` while it runs."""
        self.because: str | None = None
        self.exit_code: int | None = None
        self.text = bytearray()
        """The beginning of what it wrote."""

    @property
    def ended(self) -> bool:
        """It is in the bundle."""
        return self.outcome is not None

    @property
    def good(self) -> bool:
        """It was read to its end, and the program was content."""
        return self.outcome == "ok" and self.exit_code in (None, 0)


class Runner:
    """All sources of one bundle. Single-threaded, so that a fork is safe."""

    def __init__(
        self,
        bundle: BundleWriter,
        secrets: Callable[[], Secrets] | None = None,
        say: Callable[[Job], None] | None = None,
    ) -> None:
        """``secrets``: takes them out of one source; ``None``: they stay. ``say`` hears of every source that ended."""
        self._bundle = bundle
        self._secrets = secrets
        self._say = say
        self._selector = selectors.DefaultSelector()
        self._running: list[Job] = []
        self._stopped = False
        self.pids: list[int] = []
        """Every process that was started."""

    def start(self, source: Source, folder: str | None = None, begun: Begun | None = None) -> Job:
        """Start a source; ``folder`` is the look that it is part of. ``begun``: it is at work already."""
        member = source.member if folder is None else f"{folder}/{source.member}"
        job = Job(source, member, self._bundle.source(member, source.most))
        if source.absent is not None:
            self._end(job, "absent", source.absent)
            return job
        try:
            job.pid, job.pipe, job.ear = spawn(source) if begun is None else begun.child
        except OSError as error:
            self._end(job, "denied", f"no process could be started: {error.strerror}")
            return job
        if begun is not None:
            job.started_ns, job.begun = begun.wall_ns, begun.monotonic_s
        job.pids.append(job.pid)
        self.pids.append(job.pid)
        os.set_blocking(job.pipe, False)
        self._selector.register(job.pipe, selectors.EVENT_READ, job)
        self._running.append(job)
        # Only now: while the child is at work there is time to load what takes secrets out.
        job.secrets = None if self._secrets is None else self._secrets()
        return job

    def tell(self, job: Job, line: str) -> None:
        """Give a source the line that it waits for. One that has ended or that does not read misses it."""
        if job.ear is None:
            return
        try:
            os.set_blocking(job.ear, False)
            os.write(job.ear, line.encode() + b"\n")
        except OSError:
            pass  # It has ended.
        self._mute(job)

    def run(self, jobs: Iterable[Job] | None = None, until: float | None = None) -> None:
        """Serve all running sources until these jobs (or all) have ended, or until an instant of ``monotonic``."""
        awaited = self._running if jobs is None else list(jobs)
        while any(not job.ended for job in awaited) if jobs is not None else bool(self._running):
            now = time.monotonic()
            if until is not None and now >= until:
                return
            self._serve(self._pause(now, until))
        if until is not None and jobs is None:
            time.sleep(max(0.0, until - time.monotonic()))

    def stop(self, because: str) -> None:
        """Kill what runs and keep what it has written."""
        self._stopped = True
        for job in list(self._running):
            self._kill(job)
            self._end(job, "truncated", because)

    def _pause(self, now: float, until: float | None) -> float:
        ends = [job.begun + job.source.deadline_s for job in self._running]
        if until is not None:
            ends.append(until)
        ending = any(job.pipe is None and job.exited is None for job in self._running)
        return max(0.0, min(now + (_SOON_S if ending else _POLL_S), *ends) - now)

    def _serve(self, pause: float) -> None:
        for key, _ in self._selector.select(pause):
            self._read(cast("Job", key.data))
        now = time.monotonic()
        for job in list(self._running):
            self._reap(job, now)
            if job.exited is not None and (job.pipe is None or now - job.exited > _GRACE_S):
                self._finish(job)
            elif now - job.begun >= job.source.deadline_s:
                self._kill(job)
                self._end(job, "timed_out", f"no end within {job.source.deadline_s:g} s")

    def _read(self, job: Job) -> None:
        if job.pipe is None:
            return
        try:
            data = os.read(job.pipe, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._close(job)
            return
        job.pending += data
        *lines, job.pending = job.pending.split(b"\n")
        full = not all(self._take(job, line) for line in lines) or len(job.pending) > _LINE_CAP
        if full:
            self._kill(job)
            self._end(job, "truncated", "longer than a source of a bundle may be")

    def _take(self, job: Job, line: bytes) -> bool:
        """One line of a child; false when the source is full."""
        if job.source.argv:
            return self._row(job, line)
        kind, rest = line[:1].decode("latin-1"), line[1:]
        if kind == ROW:
            return self._row(job, rest)
        if kind == STARTED and rest.isdigit():
            job.pids.append(int(rest))
            self.pids.append(int(rest))
        elif kind == ENDED:
            job.told = _told(rest)
        return True

    def _row(self, job: Job, line: bytes) -> bool:
        if job.secrets is not None:
            line = job.secrets.row(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        line += b"\n"
        if len(job.text) < _KEPT:
            job.text += line
        return job.writer is None or job.writer.write(line)

    def _reap(self, job: Job, now: float) -> None:
        if job.pid is None or job.exited is not None:
            return
        try:
            pid, status = os.waitpid(job.pid, os.WNOHANG)
        except ChildProcessError:
            job.exited = now
            return
        if pid:
            job.status, job.exited = status, now

    def _finish(self, job: Job) -> None:
        """The child has ended by itself."""
        if job.pending:
            self._take(job, job.pending)
            job.pending = b""
        code = None if job.status is None else _exit_code(job.status)
        if job.source.argv:
            job.exit_code = code
            self._end(job, *_of_program(code, said=bool(job.text)))
        elif job.told is not None:
            outcome, because, job.exit_code = job.told
            self._end(job, outcome, because)
        else:
            self._end(job, "truncated", f"the reading process ended early, exit code {code}")

    def _kill(self, job: Job) -> None:
        if job.pid is None or job.exited is not None:
            return
        for end in (os.killpg, os.kill):
            try:
                end(job.pid, signal.SIGKILL)
            except OSError:
                continue  # It has ended, or it had not begun to lead a group of its own.

    def _close(self, job: Job) -> None:
        if job.pipe is not None:
            self._selector.unregister(job.pipe)
            os.close(job.pipe)
            job.pipe = None

    def _mute(self, job: Job) -> None:
        if job.ear is not None:
            os.close(job.ear)
            job.ear = None

    def _end(self, job: Job, outcome: str, because: str | None) -> None:
        self._close(job)
        self._mute(job)
        if job in self._running:
            self._running.remove(job)
        removed = None if job.secrets is None else job.secrets.removed()
        job.outcome, job.because = outcome, "; ".join(filter(None, (because, removed))) or None
        writer, job.writer = job.writer, None
        if writer is not None:
            writer.close(
                outcome,
                job.because,
                source=job.source.evidence,
                command=job.source.command,
                started_ns=job.started_ns,
                duration_s=round(time.monotonic() - job.begun, 6),
                exit_code=job.exit_code,
                pids=job.pids,
            )
        if self._say is not None:
            self._say(job)
        if job.source.then is not None and not self._stopped:
            for source in job.source.then(job.text.decode("utf-8", "surrogateescape")):
                self.start(source)


def _told(data: bytes) -> tuple[str, str | None, int | None] | None:
    try:
        value: object = json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        return None
    outcome, because, code = cast("tuple[object, object, object]", value)
    if outcome not in OUTCOME_VALUES:
        return None
    return (
        cast("str", outcome),
        because if isinstance(because, str) else None,
        code if isinstance(code, int) else None,
    )


def _of_program(code: int | None, *, said: bool) -> tuple[str, str | None]:
    """Outcome and reason of a program that has ended. What its exit code means is left to those who read its words."""
    if code is not None and code < 0:
        return "truncated", f"signal {-code} ended the program"
    if code == NOT_STARTED and not said:
        return "denied", "the program could not be started"
    return "ok", None


def _exit_code(status: int) -> int:
    """As Python's ``subprocess`` counts: the negative signal where one ended it."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
