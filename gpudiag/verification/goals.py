"""What should have gone and come back, read off a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gpudiag.report.contract import Gpu, LedgerEntry, Report

SETTLED = frozenset({"released", "nothing_held"})
_OURS = frozenset({"family", "older_family"})


@dataclass(frozen=True)
class Target:
    """A process that should be gone."""

    pid: int
    start_ticks: int | None
    name: str


@dataclass(frozen=True)
class GpuGoal:
    """One GPU: what it had in use, and how much of that should come back."""

    uuid: str | None
    index: int | None
    used_mib: float
    frees_mib: float
    owed_mib: dict[int, float]
    """Of what should come back, what the report books on a PID."""
    others_mib: dict[int, float]
    """What the report books on PIDs that may stay."""


@dataclass(frozen=True)
class Goals:
    """All of it."""

    targets: tuple[Target, ...]
    gpus: tuple[GpuGoal, ...]
    uncounted: tuple[str, ...]
    """GPUs of which the report does not say how much is in use or should come back."""
    newest_s: float | None
    """Time of the newest look, seconds since the epoch: who started later had no part in it."""


def goals_of(report: Report) -> Goals:
    """The plan's processes, what the plan stops first, and whoever else was expected to leave with its memory."""
    planned = dict.fromkeys(entry.process for entry in report.plan.kill)
    stopped = {int(entry.id) for entry in report.plan.stop_first if entry.id.isdecimal()}
    kept = {entry.process for entry in report.plan.keep}
    owed = {gpu.id: list(_owed(report, gpu, planned, kept)) for gpu in report.gpus}
    going = [
        entry.process for entries in owed.values() for entry in entries if entry.process and entry.kind == "process"
    ]
    wanted = dict.fromkeys((*planned, *going))
    targets = [
        Target(item.pid, item.start_ticks, item.name or "")
        for item in report.processes
        if item.id in wanted or (item.pid in stopped and item.id not in kept)
    ]
    told = not targets or any(entry.mib for entries in owed.values() for entry in entries)
    counted = [gpu for gpu in report.gpus if told and gpu.used_mib is not None]
    return Goals(
        targets=tuple(targets),
        gpus=tuple(_goal(gpu, owed[gpu.id]) for gpu in counted),
        uncounted=tuple(_name(gpu) for gpu in report.gpus if gpu not in counted),
        newest_s=_newest(report),
    )


def _owed(report: Report, gpu: Gpu, planned: dict[str, None], kept: set[str]) -> Iterator[LedgerEntry]:
    """Shares of a GPU's memory that should come back."""
    settled = report.outcome in SETTLED or gpu.outcome in SETTLED
    for entry in gpu.ledger:
        ours = entry.whose in _OURS or entry.kind in ("dead_process", "unattributed")
        open_still = not settled and entry.process not in kept and entry.kind != "driver"
        if (entry.process is not None and entry.process in planned) or (ours and open_still):
            yield entry


def _goal(gpu: Gpu, owed: list[LedgerEntry]) -> GpuGoal:
    others = [entry for entry in gpu.ledger if entry not in owed]
    frees = sum(entry.mib or 0.0 for entry in owed)
    return GpuGoal(gpu.uuid, gpu.index, float(gpu.used_mib or 0.0), float(frees), _by_pid(owed), _by_pid(others))


def _by_pid(entries: list[LedgerEntry]) -> dict[int, float]:
    sizes: dict[int, float] = {}
    for entry in entries:
        if entry.pid is not None:
            sizes[entry.pid] = sizes.get(entry.pid, 0.0) + (entry.mib or 0.0)
    return sizes


def _name(gpu: Gpu) -> str:
    return f"GPU {gpu.index}" if gpu.index is not None else gpu.id


def _newest(report: Report) -> float | None:
    times = [datetime.fromisoformat(look.time) for look in report.looks if look.time is not None]
    return max(times).timestamp() if times else None
