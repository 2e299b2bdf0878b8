"""``trace.txt``: the kernel's own record of signals, forks, execs and exits, in a trace instance of the recorder's own.

The instance is named after the recorder's PID and start ticks. The child that owns it hands every event on at once, so
that the bundle of a killed recorder has what came before. It ends when the recorder tells it to or dies; what a
killed child leaves is removed by the next recorder.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpudiag.collect.child import told_to_end
from gpudiag.collect.identity import INITIAL_PID_NAMESPACE, own_pid_namespace
from gpudiag.collect.source import Ended, Out, Source

ROOTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_NOT_CHILD = "sig != 17"
"""What every process that ends sends to its parent says nothing that its exit does not say."""
EVENTS = (
    ("signal/signal_generate", _NOT_CHILD),
    ("signal/signal_deliver", _NOT_CHILD),
    ("sched/sched_process_fork", ""),
    ("sched/sched_process_exec", ""),
    ("sched/sched_process_exit", ""),
)
"""Each with its filter."""
LONGEST_S = 24 * 3600.0
"""A recording that is not ended by then ends by itself."""
_BUFFERS_KIB = 64 * 1024
"""Of all processors together."""
_BUFFER_KIB = (256, 4096)
"""Least and most for one processor."""
_NAME = re.compile(r"gpudiag-(?P<pid>\d{1,10})-(?P<ticks>\d{1,19})\Z")
_START_TICKS = 19
"""Position behind the closing bracket of comm in ``stat``."""
_PAUSE_S = 0.03
"""Between two questions for new events."""
_CHUNK = 1 << 18
_BUSY_S = 0.5
"""A reader that is just closing makes an instance busy for a moment."""
_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x20000, 0x4000, 0x40000


def trace_source(owner: int) -> Source:
    """Records until it is told to end. Its first row says that it has begun."""
    return Source(
        "kernel trace",
        "trace.txt",
        LONGEST_S,
        produce=lambda out: produce(out, owner),
        evidence="kernel trace",
        listens=True,
    )


def clock_source(owner: int, *, left: bool) -> Source:
    """The trace's clock and the wall clock at one instant. ``left``: the trace's child has not ended well and may have
    left its instance, which goes on recording.
    """

    def write(out: Out) -> None:
        out.line(json.dumps({"boot": time.clock_gettime(time.CLOCK_BOOTTIME), "wall": time.time()}))
        if left and own_pid_namespace() == INITIAL_PID_NAMESPACE:
            with contextlib.suppress(Ended):
                _remove(_folder(_tracefs(ROOTS), owner))

    return Source("trace clock", "trace-clock.json", 2, produce=write)


def produce(out: Out, owner: int, roots: Sequence[str] = ROOTS) -> None:
    """Record until a line comes or the recorder is gone, then write what was recorded."""
    if own_pid_namespace() != INITIAL_PID_NAMESPACE:
        raise Ended("absent", "in a PID namespace of its own: the kernel's trace has other PIDs than are seen here")
    root = _tracefs(roots)
    remove_orphans(root)
    try:
        instance = _Instance(root, owner)
    except OSError as error:
        raise Ended("denied", f"no trace instance can be made: {error.strerror or error}") from None
    try:
        instance.begin()
        out.line(f"# recorded in the instance {instance.folder.name}, clock boot")
        for line in instance.lines():
            out.line(line)
    except OSError as error:
        raise Ended("truncated", f"the trace cannot be used: {error.strerror or error}") from None
    finally:
        instance.remove()


class _Instance:
    """A trace instance: buffers and switches that nobody else uses."""

    def __init__(self, root: Path, owner: int) -> None:
        self.folder = _folder(root, owner)
        self.folder.mkdir()

    def begin(self) -> None:
        least, most = _BUFFER_KIB
        size = max(least, min(most, _BUFFERS_KIB // (os.cpu_count() or 1)))
        self._write("trace_clock", "boot")
        self._write("buffer_size_kb", str(size))
        for event, filtered in EVENTS:
            if filtered:
                self._write(f"events/{event}/filter", filtered)
            self._write(f"events/{event}/enable", "1")
        self._write("tracing_on", "1")

    def lines(self) -> Iterator[str]:
        """Every event as it comes, until it is told to end; then those that are left."""
        pipe = os.open(str(self.folder / "trace_pipe"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        pending = b""
        ending = False
        try:
            while True:
                data = _read(pipe)
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    yield line.decode("utf-8", "surrogateescape")
                if data:
                    continue
                if ending:
                    return
                ending = told_to_end(_PAUSE_S)
                if ending:
                    self._write("tracing_on", "0")
        finally:
            os.close(pipe)

    def remove(self) -> None:
        _remove(self.folder)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="ascii")


def _folder(root: Path, owner: int) -> Path:
    return root / "instances" / f"gpudiag-{owner}-{_start_ticks(owner) or 0}"


def remove_orphans(root: Path) -> None:
    """Remove instances whose recorder is gone."""
    try:
        folders = [entry for entry in (root / "instances").iterdir() if _NAME.match(entry.name)]
    except OSError:
        return
    for folder in folders:
        match = _NAME.match(folder.name)
        if match is not None and _start_ticks(int(match["pid"])) != int(match["ticks"]):
            _remove(folder)


def _read(pipe: int) -> bytes:
    """What waits; nothing where nothing does."""
    try:
        return os.read(pipe, _CHUNK)
    except BlockingIOError:
        return b""


def _remove(folder: Path) -> None:
    for name in ("tracing_on", "events/enable"):
        with contextlib.suppress(OSError):
            (folder / name).write_text("0", encoding="ascii")
    end = time.monotonic() + _BUSY_S
    while time.monotonic() < end:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # Where it stays so, the next recorder tries again.
            time.sleep(0.02)
        else:
            return


def _tracefs(roots: Sequence[str]) -> Path:
    """Where it is mounted; mounted for this process alone where it is nowhere."""
    for root in roots:
        try:
            if (Path(root) / "trace_clock").exists():
                return Path(root)
        except PermissionError:
            raise Ended("denied", "the kernel's trace is for root only") from None
    if os.geteuid() != 0:
        raise Ended("denied", "the kernel's trace is for root only")
    return _mounted(Path(roots[0]))


def _mounted(folder: Path) -> Path:
    library = ctypes.CDLL(None, use_errno=True)
    steps = (
        lambda: library.unshare(_CLONE_NEWNS),
        lambda: library.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None),
        lambda: library.mount(b"tracefs", os.fsencode(folder), b"tracefs", 0, None),
    )
    for step in steps:
        if step() != 0:
            words = os.strerror(ctypes.get_errno())
            raise Ended("denied", f"tracefs is not mounted and cannot be mounted: {words}")
    return folder


def _start_ticks(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rfind(")") + 1 :].split()
    return int(fields[_START_TICKS]) if len(fields) > _START_TICKS else None
