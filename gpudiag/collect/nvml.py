"""Memory and process lists straight from NVML. Everything here runs in a child process: a call may never return."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, Callable, cast

from gpudiag.collect import libnvml
from gpudiag.collect.libnvml import LISTS, NvmlError
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended, Out

_ABSENT = (
    libnvml.NOT_SUPPORTED,
    libnvml.DRIVER_NOT_LOADED,
    libnvml.LIBRARY_NOT_FOUND,
    libnvml.FUNCTION_NOT_FOUND,
    libnvml.VERSION_MISMATCH,
)
"""Errors that say that there is no driver to ask."""
_RECOVERY = (
    "None",
    "Reset",
    "Reboot",
    "Drain P2P",
    "Drain and Reset",
    "Recover IMEX Domain",
    "Bus Reset",
    "System Reboot",
)
"""``NVML_GPU_RECOVERY_ACTION_…`` by number, in the words of ``nvidia-smi -q`` where that has some."""
_ACCOUNTED_CAP = 500
"""Processes of the driver's accounting that are written, those that took most."""


class _Nvml:
    """An initialised NVML and the GPUs that it gives."""

    def __init__(self, machine: Machine) -> None:
        """Raise ``Ended`` if it cannot be had."""
        self.failed: list[str] = []
        self.handles: list[tuple[int, Any]] = []
        try:
            self.library: Any = machine.nvml()
            for index in range(self.library.count()):
                self._add(index)
        except NvmlError as error:
            outcome = "denied" if error.code == libnvml.NO_PERMISSION else "truncated"
            raise Ended("absent" if error.code in _ABSENT else outcome, f"NVML: {_words(error)}") from None
        if not self.handles and not self.failed:
            raise Ended("absent", "NVML: the driver has no GPU")

    def _add(self, index: int) -> None:
        try:
            self.handles.append((index, self.library.gpu(index)))
        except NvmlError as error:
            self.failed.append(f"GPU {index}: {_words(error)}")

    def figures(self, index: int, handle: Any) -> dict[str, object]:
        """Figures and lists of one GPU, in bytes; ``used`` counts the driver's reserve, ``used_v2`` does not."""
        return {"index": index, **self._memory(handle), **self._lists(handle)}

    def nature(self, handle: Any) -> dict[str, object]:
        """What is asked once a look: names, what the driver advises, what it remembers, MIG devices."""
        asked: dict[str, Callable[[], object]] = {
            "uuid": lambda: self.library.uuid(handle),
            "bus_id": lambda: self.library.bus_id(handle),
            "name": lambda: self.library.name(handle),
            "recovery_action": lambda: _recovery(self.library.recovery_action(handle)),
            "accounting": lambda: self.library.accounting(handle),
            "mig": lambda: self.library.mig_enabled(handle),
        }
        found: dict[str, object] = {}
        for key, ask in asked.items():
            try:
                found[key] = ask()
            except NvmlError:
                continue  # this GPU or this driver does not know it
        if found.get("accounting") is True:
            found.update(self._accounted(handle))
        if found.get("mig") is True:
            found.update(self._mig_devices(handle))
        return found

    def versions(self) -> dict[str, object]:
        """Of the driver and of CUDA."""
        found: dict[str, object] = {}
        for key, ask in (("driver_version", self.library.driver_version), ("cuda_version", self.library.cuda_version)):
            try:
                found[key] = ask()
            except NvmlError:
                found[key] = None
        return found

    def _memory(self, handle: Any) -> dict[str, object]:
        try:
            plain = self.library.memory(handle)
        except NvmlError as error:
            # Of a divided GPU not everybody may see the whole; its parts and lists are another question.
            if error.code != libnvml.NO_PERMISSION:
                raise
            return {"used": None, "memory_error": _words(error)}
        found: dict[str, object] = {"used": plain.used, "free": plain.free, "total": plain.total}
        try:
            second = self.library.memory_v2(handle)
            found.update(reserved=second.reserved, used_v2=second.used)
        except NvmlError as error:
            found["memory_v2"] = _words(error)  # a driver older than 510
        return found

    def _lists(self, handle: Any) -> dict[str, object]:
        found: dict[str, object] = {}
        for kind in LISTS:
            try:
                found[kind] = sorted(
                    ([row.pid, row.used] for row in self.library.processes(handle, kind)), key=lambda row: row[0]
                )
            except NvmlError as error:
                found[f"{kind}_error"] = _words(error)
        return found

    def _accounted(self, handle: Any) -> dict[str, object]:
        try:
            rows = [list(row) for row in self.library.accounted(handle)]
        except NvmlError as error:
            return {"accounted_error": _words(error)}
        rows.sort(key=lambda row: -(row[1] or 0))
        return {"accounted": rows[:_ACCOUNTED_CAP], "accounted_not_written": max(0, len(rows) - _ACCOUNTED_CAP)}

    def _mig_devices(self, handle: Any) -> dict[str, object]:
        found: list[dict[str, object]] = []
        problems: list[str] = []
        try:
            for device in self.library.mig_devices(handle):
                try:
                    instances = self.library.instances(device)
                    row = {"uuid": self.library.uuid(device), "gi": instances[0], "ci": instances[1]}
                    found.append({**row, **self._memory(device), **self._lists(device)})
                except NvmlError as error:
                    problems.append(_words(error))
        except NvmlError as error:
            problems.append(_words(error))
        return {"mig_devices": found, **({"mig_error": "; ".join(problems)[:500]} if problems else {})}


def _recovery(number: int) -> str:
    return _RECOVERY[number] if number < len(_RECOVERY) else str(number)


def look(machine: Machine, out: Out) -> None:
    """``nvml.json``: one row a GPU, so that one that does not answer costs its own row."""
    nvml = _Nvml(machine)
    out.line("[")
    failed = list(nvml.failed)
    first = True
    for index, handle in nvml.handles:
        begun, stamp = time.monotonic(), _now()
        try:
            figures = nvml.figures(index, handle)
        except NvmlError as error:
            failed.append(f"GPU {index}: {_words(error)}")
            continue
        spent = round(time.monotonic() - begun, 6)
        row: dict[str, object] = {"t": stamp, "s": spent, "gpus": [{**figures, **nvml.nature(handle)}]}
        if first:
            row.update(nvml.versions())
        out.line(("" if first else ",") + json.dumps(row))
        first = False
    out.line("]")
    if failed:
        raise Ended("truncated", "; ".join(failed)[:1000])


def series(machine: Machine, out: Out, duration_s: float, every_s: float) -> None:
    """``nvml-series.json``: all GPUs, sampled; a row where something changed, and the last one."""
    nvml = _Nvml(machine)
    out.line("[")
    separator = ""
    shown = waiting = None
    for stamp, spent, gpus in _samples(nvml, duration_s, every_s):
        row = json.dumps({"t": stamp, "s": spent, "gpus": gpus})
        waiting = row
        if gpus != shown:
            out.line(separator + row)
            separator, shown, waiting = ",", gpus, None
    if waiting is not None:
        out.line(separator + waiting)
    out.line("]")


def samples(machine: Machine, out: Out, duration_s: float, every_s: float) -> None:
    """Every sample at once, in the rows of ``series``."""
    for stamp, spent, gpus in _samples(_Nvml(machine), duration_s, every_s):
        out.line(json.dumps({"t": stamp, "s": spent, "gpus": gpus}))


def watch(machine: Machine, out: Out, duration_s: float, every_s: float) -> None:
    """For whoever waits: every sample at once, a JSON object a line, with the UUIDs; GPUs that fail are left out."""
    nvml = _Nvml(machine)
    uuids = {index: nvml.nature(handle).get("uuid") for index, handle in nvml.handles}
    for stamp, _, gpus in _samples(nvml, duration_s, every_s):
        named = [{"uuid": uuids.get(cast("int", gpu["index"])), **gpu} for gpu in gpus]
        out.line(json.dumps({"t": stamp, "gpus": named, "failed": nvml.failed}))


def follow(machine: Machine, out: Out, every_s: float) -> None:
    """For a flight recorder: a row for every GPU that has changed, then an empty one; on and on."""
    nvml = _Nvml(machine)
    names = {index: nvml.nature(handle) for index, handle in nvml.handles}
    told: dict[object, dict[str, object]] = {}
    for _, _, gpus in _samples(nvml, float("inf"), every_s):
        if not gpus:
            raise Ended("truncated", "NVML: no GPU answers any more")
        for gpu in gpus:
            if told.get(gpu["index"]) != gpu:
                told[gpu["index"]] = gpu
                nature = names[cast("int", gpu["index"])]
                kept = {key: nature[key] for key in ("uuid", "bus_id", "name") if key in nature}
                row = {"is": "gpu", "t": round(time.time(), 3), "gpu": {**kept, **gpu}}
                out.line(json.dumps(row, separators=(",", ":")))
        for index in told.keys() - {gpu["index"] for gpu in gpus}:
            del told[index]
            out.line(json.dumps({"is": "gpu lost", "t": round(time.time(), 3), "index": index}))
        out.line("")


def _samples(nvml: _Nvml, duration_s: float, every_s: float) -> Iterator[tuple[str, float, list[dict[str, object]]]]:
    end = time.monotonic() + duration_s
    while time.monotonic() < end:
        begun, stamp = time.monotonic(), _now()
        gpus: list[dict[str, object]] = []
        for index, handle in nvml.handles:
            try:
                gpus.append(nvml.figures(index, handle))
            except NvmlError:
                continue  # one GPU that is lost does not end the series of the others
        now = time.monotonic()
        yield stamp, round(now - begun, 6), gpus
        time.sleep(max(0.0, min(begun + every_s, end) - now))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def _words(error: BaseException) -> str:
    return (str(error) or type(error).__name__).replace("\n", " ")[:200]
