"""Waits after a clean-up until device memory has settled: it stays free, or stands still with nobody leaving."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gpudiag.collect.machine import Machine
from gpudiag.collect.present import LEAVING, Sample, Watch, presence, ticks_of

STILL_S = 3.0
"""So long a figure stands still before it is said to have settled."""
STILL_MIB = 16.0
"""What moves less stands still."""
FREE_S = 2.0
"""So long all GPUs stay idle before they are said to be free: what looks after a server may start it anew."""
IDLE_MIB = 600.0
"""An idle GPU shows up to about so much."""
NOT_WATCHED = "not watched"
_EVERY_S = 0.1
_FIRST_S = 15.0


class Settled(NamedTuple):
    """How the wait ended."""

    how: str
    """``released``, ``plateau``, ``deadline``, ``interrupted`` or ``not watched``."""
    seconds: float
    """Until the memory was back, or until the wait was over."""
    because: str | None = None
    """Why it could not be watched."""


def settle(
    machine: Machine,
    known: Mapping[int, int],
    deadline_s: float,
    serve: Callable[[float], None],
    over: Callable[[], bool],
    started: Callable[[int], None],
) -> Settled:
    """Wait. ``known``: start ticks of the processes that held memory; ``serve`` does the recorder's work for seconds;
    ``started`` is told the PID of the child that watches.
    """
    begun = time.monotonic()
    try:
        watch = Watch(machine, _FIRST_S + deadline_s, _EVERY_S)
    except OSError as error:
        return Settled(NOT_WATCHED, 0.0, str(error))
    started(watch.pid)
    still = _Still()
    seen = False
    free_since: float | None = None
    try:
        while True:
            passed = time.monotonic() - begun
            if over() or passed >= deadline_s + (0.0 if seen else _FIRST_S):
                if free_since is not None:
                    return Settled("released", free_since)
                return Settled("interrupted" if over() else "deadline" if seen else NOT_WATCHED, passed)
            serve(_EVERY_S / 2)
            sample = watch.next(_EVERY_S)
            if sample is None:
                if watch.ended:
                    return Settled(NOT_WATCHED, passed, watch.because)
                continue
            seen = True
            if _free(sample):
                free_since = passed if free_since is None else free_since
                if passed - free_since >= FREE_S:
                    return Settled("released", free_since)
                continue
            free_since = None
            leaving = any(presence(pid, ticks, machine) == LEAVING for pid, ticks in known.items())
            if still.after(sample) >= STILL_S and not leaving:
                return Settled("plateau", passed)
    finally:
        watch.close()


class _Still:
    """For how long no figure has moved."""

    def __init__(self) -> None:
        self._figures: dict[int, float] = {}
        self._since = time.monotonic()

    def after(self, sample: Sample) -> float:
        figures = {gpu.number: gpu.used_mib or 0.0 for gpu in sample.gpus}
        moved = [abs(size - self._figures.get(number, size)) >= STILL_MIB for number, size in figures.items()]
        if any(moved) or figures.keys() != self._figures.keys():
            self._figures, self._since = figures, sample.time_s
        return sample.time_s - self._since


def _free(sample: Sample) -> bool:
    return bool(sample.gpus) and all(
        gpu.used_mib is not None and gpu.used_mib <= IDLE_MIB and not gpu.compute_pids for gpu in sample.gpus
    )


def start_ticks(pids: Iterable[int], machine: Machine) -> dict[int, int]:
    """Of those that are there."""
    found = {pid: ticks_of(pid, machine) for pid in pids}
    return {pid: ticks for pid, ticks in found.items() if ticks is not None}
