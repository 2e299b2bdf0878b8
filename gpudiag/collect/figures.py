"""The few figures that the collector itself needs from what its sources have written. Explaining is not its task."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from gpudiag.collect.runner import Job

_MIB = 1 << 20
_LISTS = ("Compute", "Graphics", "MPSCompute")
_OF_GPU = re.compile(rb"MiB|N/A|<gpu\b")
"""What nvidia-smi says of any GPU, in every one of its forms."""
_ROW = re.compile(r'^,?"(\d{1,9})": ', re.MULTILINE)


def used_mib(jobs: Iterable[Job]) -> dict[int, float]:
    """Used memory of each GPU by index, the newest of all looks, without the driver's reserve where it is known."""
    found: dict[int, float] = {}
    for job in jobs:
        if job.source.member == "query-gpu.csv" and job.good:
            found.update(
                (index, mib) for index, mib in _of_csv(job.text, "index", "memory.used [MiB]") if mib is not None
            )
        for gpu in _gpus(job):
            index, used = gpu.get("index"), used_bytes(gpu)
            if isinstance(index, int) and used is not None:
                found[index] = used / _MIB
    return found


def booked_mib(jobs: Iterable[Job]) -> dict[int, float]:
    """What is booked on each PID over all GPUs in the last look; 0 where nobody tells how much.

    By NVML or, where that has not answered, by nvidia-smi's list.
    """
    found: dict[int, float] = {}
    listed: dict[int, float] = {}
    for job in jobs:
        gpus = list(_gpus(job))
        found = {} if gpus else found
        for gpu in gpus:
            for pid, size in bookings(gpu):
                found[pid] = found.get(pid, 0.0) + size / _MIB
        if job.source.member == "query-apps.csv" and job.good:
            listed = {}
            for pid, mib in _of_csv(job.text, "pid", "used_gpu_memory [MiB]"):
                listed[pid] = listed.get(pid, 0.0) + (mib or 0.0)
    return found or listed


def tells_of_gpu(job: Job) -> bool:
    """Whether a source of the GPUs was read well and holds something about one."""
    return job.good and (job.source.member == "nvml.json" or _OF_GPU.search(job.text) is not None)


def written_pids(text: str) -> tuple[int, ...]:
    """PIDs of the rows of ``proc.json``."""
    return tuple(dict.fromkeys(int(number) for number in _ROW.findall(text)))


def used_bytes(gpu: dict[str, object]) -> int | None:
    """Bytes. Of a divided GPU that may not be seen as a whole: what its visible parts have."""
    used = gpu.get("used_v2", gpu.get("used"))
    parts = gpu.get("mig_devices")
    if isinstance(used, int) or not isinstance(parts, list):
        return used if isinstance(used, int) else None
    devices = [cast("dict[str, object]", part) for part in cast("list[object]", parts) if isinstance(part, dict)]
    found = [size for size in (part.get("used_v2", part.get("used")) for part in devices) if isinstance(size, int)]
    return sum(found) if found else None


def bookings(gpu: dict[str, object], kinds: Sequence[str] = _LISTS) -> Iterator[tuple[int, int]]:
    """PID and bytes of NVML's lists of one GPU; 0 where it does not tell how much."""
    for kind in kinds:
        rows = gpu.get(kind)
        for row in cast("list[list[object]]", rows) if isinstance(rows, list) else ():
            if len(row) > 1 and isinstance(row[0], int):
                yield row[0], row[1] if isinstance(row[1], int) else 0


def _gpus(job: Job) -> Iterator[dict[str, object]]:
    if job.source.member != "nvml.json":
        return
    for line in bytes(job.text).split(b"\n"):
        try:
            value: object = json.loads(line.lstrip(b","))
        except ValueError:
            continue
        rows = cast("dict[str, object]", value).get("gpus") if isinstance(value, dict) else None
        for gpu in cast("list[object]", rows) if isinstance(rows, list) else ():
            if isinstance(gpu, dict):
                yield cast("dict[str, object]", gpu)


def _of_csv(text: bytes | bytearray, number: str, amount: str) -> Iterator[tuple[int, float | None]]:
    """Of each row the number in one column and MiB in another; ``None`` where that says something else."""
    lines = [[cell.strip() for cell in line.split(",")] for line in bytes(text).decode("utf-8", "replace").split("\n")]
    heading = lines[0]
    if number not in heading or amount not in heading:
        return
    first, second = heading.index(number), heading.index(amount)
    for cells in lines[1:]:
        if len(cells) == len(heading) and cells[first].isdecimal():
            size = cells[second].partition(" ")[0]
            yield int(cells[first]), float(size) if size.isdecimal() else None
