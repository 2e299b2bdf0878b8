"""Rows of the table of who holds what: entries that say the same are told once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpudiag.report.contract import Gpu, LedgerEntry
from gpudiag.report.text import mib, pid_set, plural, total
from gpudiag.report.view import View

ROOM: Final = 64
"""Entries that are told one by one; of more, those of a GPU that differ only in their process are summed."""


@dataclass(frozen=True)
class Row:
    """One share of memory: on several GPUs alike, or of several processes of one GPU."""

    gpus: str
    """``GPU 0``, ``GPU 0–7``."""
    size: str
    """With its unit; of each GPU where there are several."""
    pids: str
    """Empty where no process is named."""
    name: str | None
    """``None`` where there is none, or several."""
    held_by: str
    whose: str
    """Key of WHOSE_WORDS."""
    because: str


def rows(view: View) -> tuple[Row, ...]:
    """The ledgers of all GPUs."""
    entries = [(gpu, entry) for gpu in view.report.gpus for entry in gpu.ledger]
    return tuple(_summed(view, entries) if len(entries) > ROOM else _one_by_one(view, entries))


def _one_by_one(view: View, entries: list[tuple[Gpu, LedgerEntry]]) -> Iterator[Row]:
    alike: dict[str, tuple[LedgerEntry, list[Gpu]]] = {}
    for gpu, entry in entries:
        alike.setdefault(entry.model_dump_json(), (entry, []))[1].append(gpu)
    for entry, gpus in alike.values():
        yield Row(
            gpus=view.gpu_names(gpus),
            size=f"{mib(entry.mib)} each" if len(gpus) > 1 and entry.mib is not None else mib(entry.mib),
            pids="" if entry.pid is None else str(entry.pid),
            name=entry.name,
            held_by=view.held_by(entry),
            whose=entry.whose,
            because=entry.because,
        )


def _summed(view: View, entries: list[tuple[Gpu, LedgerEntry]]) -> Iterator[Row]:
    alike: dict[tuple[str, str, str, str], list[LedgerEntry]] = {}
    for gpu, entry in entries:
        key = (view.gpu_name(gpu.id), view.held_by(entry), entry.whose, entry.because)
        alike.setdefault(key, []).append(entry)
    for (gpu_name, held_by, whose, because), group in alike.items():
        numbers = [entry.pid for entry in group if entry.pid is not None]
        names = {entry.name for entry in group}
        yield Row(
            gpus=gpu_name,
            size=total(entry.mib for entry in group),
            pids=pid_set(numbers),
            name=names.pop() if len(names) == 1 else None,
            held_by=f"{held_by}, {plural(len(numbers), 'PID')}" if len(numbers) > 1 else held_by,
            whose=whose,
            because=because,
        )
