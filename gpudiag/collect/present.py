"""What is there now: whether a PID is still the same process, and how much memory the GPUs have in use."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from gpudiag.collect import figures
from gpudiag.collect.child import ENDED, ROW, spawn
from gpudiag.collect.hidden import hides, own_hidepid
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Out, Source

GONE = "gone"
"""No such process, or a zombie without a living thread, which holds nothing any more."""
ALIVE = "alive"
LEAVING = "leaving"
"""It is on its way out of the kernel: exiting, or a dead leader with threads that still run."""
RECYCLED = "recycled"
"""The PID is another process's by now."""
UNKNOWN = "unknown"

_STATE, _FLAGS, _START = 0, 6, 19
"""Positions behind the closing bracket of comm in ``stat``."""
_PF_EXITING = 0x4
_MIB = 1 << 20
_COMPUTE = ("Compute", "MPSCompute")
_LINE_CAP = 4 << 20
_CHUNK = 1 << 16


def presence(pid: int, start_ticks: int | None, machine: Machine) -> str:
    """One of the five words. Without start ticks a PID that is there may be anybody's."""
    try:
        fields = _stat(f"{machine.proc}/{pid}/stat")
    except PermissionError:
        return UNKNOWN
    if fields is None:
        hidden = not machine.root and hides(own_hidepid(machine.proc))
        return UNKNOWN if hidden else GONE
    if start_ticks is None:
        return UNKNOWN
    if int(fields[_START]) != start_ticks:
        return RECYCLED
    if fields[_STATE] in ("Z", "X"):
        return LEAVING if _living_threads(f"{machine.proc}/{pid}/task", pid) else GONE
    return LEAVING if int(fields[_FLAGS]) & _PF_EXITING else ALIVE


def ticks_of(pid: int, machine: Machine) -> int | None:
    """Start ticks of the process that has this PID now."""
    try:
        fields = _stat(f"{machine.proc}/{pid}/stat")
    except PermissionError:
        return None
    return None if fields is None else int(fields[_START])


def started_s(pid: int, machine: Machine) -> float | None:
    """When the process with this PID started, in seconds since the epoch."""
    ticks = ticks_of(pid, machine)
    if ticks is None:
        return None
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


class GpuNow(NamedTuple):
    """One GPU in one sample."""

    number: int
    """As NVML counts."""
    uuid: str | None
    used_mib: float | None
    """Without the driver's reserve where that is told."""
    net: bool
    """The reserve is left out."""
    booked_mib: dict[int, float]
    """By PID; 0 where the driver lists it without a size."""
    compute_pids: tuple[int, ...]
    """Of these, who computes: a desktop does not."""


class Sample(NamedTuple):
    """All GPUs at one moment."""

    time_s: float
    """``time.monotonic`` of its arrival."""
    gpus: tuple[GpuNow, ...]
    failed: tuple[str, ...]
    """GPUs that do not answer, in words."""


class Watch:
    """Samples of the GPUs, from a child that is left alone if the driver hangs."""

    def __init__(self, machine: Machine, seconds: float, every_s: float) -> None:
        """``OSError``: no process could be started."""
        source = Source("GPUs now", "watch", seconds, produce=lambda out: _watch(machine, out, seconds, every_s))
        self._child = spawn(source)
        self._pending = b""
        self._open = True
        self.because: str | None = None
        """Why no more samples come, in the child's words."""

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._child.pid

    @property
    def ended(self) -> bool:
        """No more samples will come."""
        return not self._open

    def next(self, within_s: float) -> Sample | None:
        """The next sample; ``None``: none came in time, or none will (``because``)."""
        end = time.monotonic() + within_s
        while True:
            line, found, rest = self._pending.partition(b"\n")
            if found:
                self._pending = rest
                sample = self._take(line)
                if sample is not None:
                    return sample
                continue
            left = end - time.monotonic()
            if not self._open or left <= 0 or not select.select([self._child.pipe], [], [], left)[0]:
                return None
            data = os.read(self._child.pipe, _CHUNK)
            self._open = bool(data) and len(self._pending) < _LINE_CAP
            self._pending += data

    def close(self) -> None:
        """End the child; one that hangs in the driver is left."""
        os.close(self._child.pipe)
        with contextlib.suppress(OSError):  # It has ended.
            os.killpg(self._child.pid, signal.SIGKILL)
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            try:
                if os.waitpid(self._child.pid, os.WNOHANG)[0]:
                    return
            except ChildProcessError:
                return
            time.sleep(0.005)

    def _take(self, line: bytes) -> Sample | None:
        kind, text = line[:1].decode("latin-1"), line[1:]
        value: object = json.loads(text) if kind in (ROW, ENDED) else None
        if kind == ENDED:
            _, because, _ = cast("list[object]", value)
            self.because = because if isinstance(because, str) else None
        if not isinstance(value, dict):
            return None
        row = cast("dict[str, object]", value)
        gpus = cast("list[dict[str, object]]", row["gpus"])
        return Sample(time.monotonic(), tuple(map(_gpu, gpus)), tuple(cast("list[str]", row["failed"])))


def _gpu(row: dict[str, object]) -> GpuNow:
    used, uuid = figures.used_bytes(row), row.get("uuid")
    booked: dict[int, float] = {}
    for pid, size in figures.bookings(row):
        booked[pid] = booked.get(pid, 0.0) + size / _MIB
    return GpuNow(
        number=cast("int", row["index"]),
        uuid=uuid if isinstance(uuid, str) else None,
        used_mib=None if used is None else used / _MIB,
        net="used_v2" in row,
        booked_mib=booked,
        compute_pids=tuple(dict.fromkeys(pid for pid, _ in figures.bookings(row, _COMPUTE))),
    )


def _watch(machine: Machine, out: Out, seconds: float, every_s: float) -> None:
    from gpudiag.collect import nvml

    nvml.watch(machine, out, seconds, every_s)


def _stat(path: str) -> list[str] | None:
    """The fields behind comm; ``None``: there is no such process. ``PermissionError``: nobody may ask."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except PermissionError:
        raise
    except OSError:
        return None
    fields = text[text.rfind(")") + 1 :].split()
    return fields if len(fields) > _START else None


def _living_threads(folder: str, leader: int) -> bool:
    return any(state not in ("Z", "X") for state in _thread_states(folder, leader))


def _thread_states(folder: str, leader: int) -> Iterator[str]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names
    except OSError:
        return
    for name in names:
        fields = _stat(f"{folder}/{name}/stat")
        if fields is not None and name != str(leader):
            yield fields[_STATE]
