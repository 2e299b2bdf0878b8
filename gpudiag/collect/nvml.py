"""Memory and process lists straight from NVML. Everything here runs in a child process: a call may never return."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Callable

from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended, Out

LISTS = ("Compute", "Graphics", "MPSCompute")
_ABSENT = ("LibraryNotFound", "DriverNotLoaded", "LibRmVersionMismatch", "NotSupported", "FunctionNotFound")
"""NVML errors that say that there is no driver to ask, by the name of their class behind ``NVMLError_``."""


class _Nvml:
    """An initialised NVML."""

    def __init__(self, machine: Machine) -> None:
        """Raise ``Ended`` if it cannot be had."""
        try:
            self.module: Any = machine.nvml()
        except ImportError:
            raise Ended("absent", "the Python module pynvml is not installed") from None
        try:
            self.module.nvmlInit()
            self.handles: list[tuple[int, Any]] = []
            self.failed: list[str] = []
            for index in range(self.module.nvmlDeviceGetCount()):
                self._add(index)
        except Exception as error:
            kind = type(error).__name__
            if kind.startswith("NVMLError_"):
                kind = kind[len("NVMLError_") :]
            outcome = "denied" if kind == "NoPermission" else "absent" if kind in _ABSENT else "truncated"
            raise Ended(outcome, f"NVML: {_words(error)}") from None
        if not self.handles and not self.failed:
            raise Ended("absent", "NVML: the driver has no GPU")

    def _add(self, index: int) -> None:
        try:
            self.handles.append((index, self.module.nvmlDeviceGetHandleByIndex(index)))
        except Exception as error:
            self.failed.append(f"GPU {index}: {_words(error)}")

    def names(self, handle: Any) -> Mapping[str, object]:
        """What does not change: UUID, bus id, name."""
        found: dict[str, object] = {
            "uuid": self._text(lambda: self.module.nvmlDeviceGetUUID(handle)),
            "bus_id": self._text(lambda: self.module.nvmlDeviceGetPciInfo(handle).busId),
            "name": self._text(lambda: self.module.nvmlDeviceGetName(handle)),
        }
        return {key: value for key, value in found.items() if value is not None}

    def memory(self, index: int, handle: Any) -> dict[str, object]:
        """Figures and lists of one GPU, in bytes; ``used`` counts the driver's reserve, ``used_v2`` does not."""
        plain = self.module.nvmlDeviceGetMemoryInfo(handle)
        found: dict[str, object] = {"index": index, "used": plain.used, "free": plain.free, "total": plain.total}
        version = getattr(self.module, "nvmlMemory_v2", None)
        if version is not None:
            try:
                second = self.module.nvmlDeviceGetMemoryInfo(handle, version=version)
                found.update(reserved=second.reserved, used_v2=second.used)
            except Exception as error:
                found["memory_v2"] = _words(error)  # a driver older than 510
        for kind in LISTS:
            try:
                rows = getattr(self.module, f"nvmlDeviceGet{kind}RunningProcesses")(handle)
                found[kind] = sorted(([row.pid, row.usedGpuMemory] for row in rows), key=lambda row: row[0])
            except Exception as error:
                found[f"{kind}_error"] = _words(error)
        return found

    def versions(self) -> Mapping[str, object]:
        """Of the driver and of CUDA."""
        cuda = None
        try:
            number = self.module.nvmlSystemGetCudaDriverVersion_v2()
            cuda = f"{number // 1000}.{number % 1000 // 10}"
        except Exception:
            cuda = None
        return {"driver_version": self._text(self.module.nvmlSystemGetDriverVersion), "cuda_version": cuda}

    def _text(self, ask: Callable[[], object]) -> str | None:
        try:
            value = ask()
        except Exception:
            return None
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return value if isinstance(value, str) else None


def look(machine: Machine, out: Out) -> None:
    """``nvml.json``: one row a GPU, so that one that does not answer costs its own row."""
    nvml = _Nvml(machine)
    out.line("[")
    failed = list(nvml.failed)
    first = True
    for index, handle in nvml.handles:
        begun, stamp = time.monotonic(), _now()
        try:
            figures = nvml.memory(index, handle)
        except Exception as error:
            failed.append(f"GPU {index}: {_words(error)}")
            continue
        spent = round(time.monotonic() - begun, 6)
        row: dict[str, object] = {"t": stamp, "s": spent, "gpus": [{**figures, **nvml.names(handle)}]}
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


def _samples(nvml: _Nvml, duration_s: float, every_s: float) -> Iterator[tuple[str, float, list[dict[str, object]]]]:
    end = time.monotonic() + duration_s
    while time.monotonic() < end:
        begun, stamp = time.monotonic(), _now()
        gpus: list[dict[str, object]] = []
        for index, handle in nvml.handles:
            try:
                gpus.append(nvml.memory(index, handle))
            except Exception:
                continue  # one GPU that is lost does not end the series of the others
        now = time.monotonic()
        yield stamp, round(now - begun, 6), gpus
        time.sleep(max(0.0, min(begun + every_s, end) - now))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def _words(error: BaseException) -> str:
    return (str(error) or type(error).__name__).replace("\n", " ")[:200]
