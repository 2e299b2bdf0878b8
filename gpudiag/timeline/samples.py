"""Memory of every GPU over time, as one table; the newest figure; how long a release took."""

# polars' annotations name numpy's types, and numpy is not among the dependencies.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from gpudiag.model import Booking, Citation, GpuSample
from gpudiag.timeline.gpus import Gpu, GpuIndex
from gpudiag.timeline.order import SECOND, Look

_SCHEMA = {
    "gpu": pl.String,
    "look": pl.String,
    "time_ns": pl.Int64,
    "used_mib": pl.Float64,
    "net": pl.Boolean,
    "rank": pl.Int64,
    "row": pl.Int64,
}

IDLE_MIB = 600.0
"""An idle GPU shows up to about this much: 0 on an H200, 256 MiB of firmware carve-out on a T4, some hundred
for a desktop. Above it, somebody holds memory."""


@dataclass(frozen=True)
class Figure:
    """Used memory of one GPU at the newest moment that the evidence has after the last command."""

    gpu: Gpu
    look: str | None
    time_ns: int | None
    used_mib: float
    net: bool
    """Without the driver's reserve. Where only NVML's gross figure exists and the reserve is unknown, it is not."""
    cited: Citation
    whole: bool = True
    """``False``: no source has the GPU's figure; it is the sum of what a process list books, so at least that."""


class Memory:
    """All samples of an incident."""

    def __init__(self, samples: Sequence[GpuSample], gpus: GpuIndex, looks: Sequence[Look]):
        self._samples = tuple(samples)
        self.gpus = gpus
        position = {look.id: look.position for look in looks}
        self._positions = position
        rows = [row for n, sample in enumerate(samples) if (row := _row(n, sample, gpus)) is not None]
        self.table = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
        """One row a sample; ``rank`` prefers nvidia-smi's own CSV over its table over NVML's gross figure."""

    def newest(self, gpu: Gpu, after_slot: float, after_ns: int | None) -> Figure | None:
        """The last figure that was taken after the last command (or simply the last, where there was none)."""
        own = self.table.filter(pl.col("gpu") == gpu.id, pl.col("used_mib").is_not_null())
        in_looks = [
            (self._positions[look], rank, row)
            for look, rank, row in own.select("look", "rank", "row").iter_rows()
            if look in self._positions and self._positions[look] > after_slot
        ]
        if in_looks:
            return self._figure(gpu, max(in_looks)[2])
        timed = own.filter(pl.col("look").is_null(), pl.col("time_ns").is_not_null())
        if after_ns is not None:
            timed = timed.filter(pl.col("time_ns") > after_ns)
        elif after_slot > -1:
            return None
        last = timed.sort("time_ns").tail(1)
        return self._figure(gpu, last.item(0, "row")) if last.height else None

    def _figure(self, gpu: Gpu, number: int) -> Figure:
        sample = self._samples[number]
        row = self.table.filter(pl.col("row") == number)
        used = row.item(0, "used_mib")
        return Figure(gpu, sample.at.look, sample.at.time_ns, float(used), bool(row.item(0, "net")), sample.cited)

    def at_look(self, gpu: Gpu, look: str) -> float | None:
        """The figure of one look."""
        own = self.table.filter(pl.col("gpu") == gpu.id, pl.col("look") == look).sort("rank", descending=True)
        return float(own.item(0, "used_mib")) if own.height and own.item(0, "used_mib") is not None else None

    def figures_after(self, gpu: Gpu, slot: float) -> list[float]:
        """Figures of the looks after a command in the order in which they were read; repeated ones once."""
        rows = self.table.filter(pl.col("gpu") == gpu.id, pl.col("used_mib").is_not_null(), pl.col("net")).sort("row")
        found: list[float] = []
        for look, used in rows.select("look", "used_mib").iter_rows():
            if look in self._positions and self._positions[look] > slot and (not found or found[-1] != used):
                found.append(float(used))
        return found

    def curve(self) -> pl.DataFrame:
        """What a chart shows: per GPU one figure a moment, in time order, best source first."""
        timed = self.table.filter(pl.col("time_ns").is_not_null(), pl.col("used_mib").is_not_null())
        best = timed.sort("gpu", "time_ns", "rank", descending=[False, False, True]).unique(
            ["gpu", "time_ns"], keep="first", maintain_order=True
        )
        return best.select("gpu", "time_ns", "used_mib", "net")

    def level_before(self, gpu: Gpu, time_ns: int | None, slot: float) -> float | None:
        """Used memory right before a command: the last sample in time, else the look before it."""
        if time_ns is not None:
            past = self.curve().filter(pl.col("gpu") == gpu.id, pl.col("time_ns") <= time_ns).tail(1)
            if past.height:
                return float(past.item(0, "used_mib"))
        earlier = [look for look, position in self._positions.items() if position < slot]
        figures = [figure for look in reversed(earlier) if (figure := self.at_look(gpu, look)) is not None]
        return figures[0] if figures else None

    def first_at_or_below(self, gpu: Gpu, after_ns: int, level_mib: float) -> int | None:
        """When the used memory had first come down to a level, counted from an instant."""
        later = self.curve().filter(
            pl.col("gpu") == gpu.id, pl.col("time_ns") > after_ns, pl.col("used_mib") <= level_mib
        )
        return int(later.item(0, "time_ns")) if later.height else None

    def sampled_between(self, gpu: Gpu, first_ns: int, last_ns: int) -> bool:
        """Some series sample lies in this span, so that a time found in it is not just a look's."""
        series = self.table.filter(pl.col("look").is_null(), pl.col("gpu") == gpu.id)
        return series.filter(pl.col("time_ns") > first_ns, pl.col("time_ns") <= last_ns).height > 0


def _row(number: int, sample: GpuSample, gpus: GpuIndex) -> tuple[object, ...] | None:
    gpu = gpus.of(sample.at.host, sample.gpu)
    if gpu is None:
        return None
    used, net = sample.used_mib, True
    if sample.used_includes_reserve:
        net = gpu.reserved_mib is not None
        if used is not None and gpu.reserved_mib is not None:
            used = max(0.0, used - gpu.reserved_mib)
    rank = (2 if not sample.used_includes_reserve else 0) + (1 if sample.reserved_mib is not None else 0)
    return (gpu.id, sample.at.look, sample.at.time_ns, used, net, rank, number)


def pinned_gib(rss_shmem_kib: int | None) -> float | None:
    """Host memory that a release has to unpin, from ``RssShmem``."""
    return None if rss_shmem_kib is None else rss_shmem_kib / (1 << 20)


MIN_RELEASE_S = 0.5
"""Release of device memory alone, at most (measured: 0.1 to 0.5 s)."""


def expected_release_s(rss_shmem_kib: int | None) -> float | None:
    """How long SIGKILL to release takes: half a second, and pinned memory at about 6 GiB/s (measured)."""
    pinned = pinned_gib(rss_shmem_kib)
    return None if pinned is None else MIN_RELEASE_S + pinned / 6


def driver_bound_mib(used_mib: float, processes: int, pinned: float) -> float:
    """Most that the driver's own bookkeeping takes beside the processes' figures (measured on an H200)."""
    return 16 + 8 * processes + 3 * pinned + 0.003 * used_mib


def series_bookings(bookings: Iterable[Booking]) -> list[Booking]:
    """Rows of a sampled series: they belong to no look."""
    return [booking for booking in bookings if booking.at.look is None]


def seconds(later_ns: int, earlier_ns: int) -> float:
    """Distance of two instants."""
    return (later_ns - earlier_ns) / SECOND
