"""The memory ledger: every MiB that a GPU reports as used is booked to an owner, or said to have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpudiag.ranges import number_ranges
from gpudiag.timeline.gpus import Gpu
from gpudiag.timeline.inheritance import Inheritance
from gpudiag.timeline.lives import UNKNOWN_GPU, Census, Key, Life
from gpudiag.timeline.order import Look
from gpudiag.timeline.samples import IDLE_MIB, Figure, driver_bound_mib, pinned_gib


@dataclass(frozen=True)
class Entry:
    """One owner of memory on one GPU."""

    kind: str
    """``process``, ``dead_process``, ``driver`` or ``unattributed``."""
    life: Life | None
    mib: float
    held_by: tuple[Life, ...]
    """For a dead process: who keeps its memory."""
    because: str


@dataclass(frozen=True)
class Ledger:
    """One GPU's account in the newest look."""

    figure: Figure
    entries: tuple[Entry, ...]
    list_seen: bool
    """The look has a process list for this GPU; without one nothing can be attributed."""

    def total(self, kind: str) -> float:
        """Sum over entries of one kind."""
        return sum(entry.mib for entry in self.entries if entry.kind == kind)

    @property
    def booked_mib(self) -> float:
        """What the driver books on PIDs, dead ones included."""
        return self.total("process") + self.total("dead_process")


def close_ledger(
    figure: Figure,
    look: Look,
    census: Census,
    inherited: Sequence[Inheritance],
    list_seen: bool,
    released_kib: Mapping[Key, int | None],
) -> Ledger:
    """Book the figure of one GPU. ``released_kib``: pinned memory by process, from its last look alive."""
    entries: list[Entry] = []
    pinned = 0.0
    heirs = {item.dead.key: item for item in inherited if item.booked}
    for life in census.lives:
        seen = life.sightings.get(look.id)
        mib = seen.held().get(figure.gpu.id) if seen is not None else None
        if seen is None or mib is None:
            continue
        pinned += pinned_gib(released_kib.get(life.key)) or 0.0
        entries.append(_entry(life, mib, census.present(life, look), heirs.get(life.key), reported=seen.reported))
    entries.sort(key=lambda entry: entry.life.pid if entry.life else 0)
    rest = figure.used_mib - sum(entry.mib for entry in entries)
    unplaced = [x.pid for x in census.lives if look.id in x.sightings and UNKNOWN_GPU in x.sightings[look.id].held()]
    if unplaced:
        listed = f"the process list does not say on which GPU or how much: {number_ranges(sorted(unplaced))}"
        entries.append(Entry("unattributed", None, rest, (), listed))
    elif list_seen:
        left = _rest(rest, driver_bound_mib(figure.used_mib, len(entries), pinned), figure)
        keepers = [item for item in inherited if not item.booked and _has_open(item, figure.gpu)]
        kept = bool(keepers) and figure.used_mib > IDLE_MIB
        entries += [_kept_by(entry, keepers) if kept and entry.kind == "unattributed" else entry for entry in left]
    elif rest > 0:
        entries.append(Entry("unattributed", None, rest, (), "the evidence has no process list for this GPU"))
    return Ledger(figure, tuple(entries), list_seen)


def _entry(life: Life, mib: float, present: bool | None, item: Inheritance | None, *, reported: bool) -> Entry:
    if present is False:
        heirs = item.heirs if item is not None else ()
        held = (
            "; " + number_ranges(sorted(heir.pid for heir in heirs)) + " still has its device files open"
            if heirs
            else ""
        )
        return Entry("dead_process", life, mib, heirs, f"the driver books it on PID {life.pid}, which is gone{held}")
    if reported:
        return Entry("process", life, mib, (), "a server's out-of-memory message names this process with its memory")
    if present is None:
        return Entry("process", life, mib, (), "the driver lists this PID; no process table of this look confirms it")
    return Entry("process", life, mib, (), "the driver books it on this process")


def _has_open(item: Inheritance, gpu: Gpu) -> bool:
    """One of the heirs has this GPU's device file open."""
    if item.dead.host != gpu.host:
        return False
    opened = [heir.sightings[item.look.id].open or frozenset() for heir in item.heirs]
    return gpu.index is None or any(f"/dev/nvidia{gpu.index}" in files for files in opened)


def _kept_by(entry: Entry, items: Sequence[Inheritance]) -> Entry:
    """What no listed process accounts for, where a dead one's children have the device open."""
    heirs = tuple(heir for item in items for heir in item.heirs)
    named = number_ranges(sorted(heir.pid for heir in heirs))
    because = f"in no list; the device files of the dead {items[0].dead.pid} are still open in {named}"
    return Entry("dead_process", items[0].dead, entry.mib, heirs, because)


def _rest(rest: float, bound: float, figure: Figure) -> list[Entry]:
    """What the list leaves: the driver's bookkeeping up to its measured bound, then unattributed."""
    if rest <= 0:
        return []
    if not figure.net:
        because = "the figure includes the driver's reserve, whose size this evidence does not show"
        return [Entry("driver", None, min(rest, bound), (), because)] + (
            [Entry("unattributed", None, rest - bound, (), because)] if rest > bound else []
        )
    driver = Entry(
        "driver", None, min(rest, bound), (), f"bookkeeping beside the processes, at most {bound:.0f} MiB here"
    )
    if rest <= bound:
        return [driver]
    return [driver, Entry("unattributed", None, rest - bound, (), "no listed process accounts for it")]
