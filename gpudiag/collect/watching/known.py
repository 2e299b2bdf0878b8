"""All that the ring's lines say so far: what a segment begins with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import cast

Row = dict[str, object]
LISTS = ("Compute", "Graphics", "MPSCompute")
"""As the rows of the GPUs call them."""


class Known:
    """Processes and GPUs as they were last told."""

    def __init__(self) -> None:
        self.processes: dict[int, Row] = {}
        self.gpus: dict[int, Row] = {}

    def take(self, row: Row) -> None:
        """One line of the ring."""
        kind = row.get("is")
        if kind == "proc":
            self._process(row)
        elif kind == "gone":
            self._gone(row)
        elif kind == "gpu":
            gpu = cast("Row", row["gpu"])
            self.gpus[cast("int", gpu["index"])] = row
        elif kind == "gpu lost":
            self.gpus.pop(cast("int", row["index"]), None)
        elif kind == "no gpus":
            self.gpus.clear()

    def used_bytes(self) -> int:
        """Memory in use on all GPUs."""
        gpus = [cast("Row", row["gpu"]) for row in self.gpus.values()]
        sizes = [gpu.get("used_v2", gpu.get("used")) for gpu in gpus]
        return sum(size for size in sizes if isinstance(size, int))

    def listed(self) -> set[int]:
        """PIDs in NVML's lists."""
        gpus = [cast("Row", row["gpu"]) for row in self.gpus.values()]
        lists = [cast("list[list[int]]", gpu.get(kind) or []) for gpu in gpus for kind in LISTS]
        return {row[0] for rows in lists for row in rows}

    def lines(self) -> Iterator[bytes]:
        """GPUs, then processes with a device, then the others; the last line says that they are all."""
        for _, row in sorted(self.gpus.items()):
            yield line(row)
        for row in sorted(self.processes.values(), key=_weight):
            yield line(row)
        yield line({"is": "all"})

    def _process(self, row: Row) -> None:
        pid = cast("int", row["pid"])
        known = self.processes.get(pid)
        if known is not None and known["start"] == row["start"]:
            known.update(row)
        else:
            self.processes[pid] = row

    def _gone(self, row: Row) -> None:
        pid = cast("int", row["pid"])
        known = self.processes.get(pid)
        if known is not None and known["start"] == row["start"]:
            del self.processes[pid]


def _weight(row: Row) -> tuple[bool, int]:
    return not row.get("fds"), cast("int", row["pid"])


def line(row: Row) -> bytes:
    """A row as it is written."""
    return json.dumps(row, separators=(",", ":")).encode("ascii") + b"\n"


def note_listed(about: memoryview, pids: Iterable[int]) -> None:
    """Processes to be looked at every second, whoever may see their descriptors; 0 ends the list."""
    kept = [*sorted(pids)[: len(about) // 4 - 2], 0]
    about[4 : 4 + 4 * len(kept)] = b"".join(pid.to_bytes(4, "little") for pid in kept)


def noted_listed(about: memoryview) -> Iterator[int]:
    """What ``note_listed`` has noted."""
    for place in range(4, len(about) - 3, 4):
        pid = int.from_bytes(about[place : place + 4], "little")
        if pid == 0:
            return
        yield pid
