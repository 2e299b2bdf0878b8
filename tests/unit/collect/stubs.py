"""A machine made of files and of a stub in NVML's place."""
# ruff: noqa: N802, N815 - the names are NVML's

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpudiag.collect.machine import Machine

MIB = 1 << 20


class NVMLError_DriverNotLoaded(Exception):  # noqa: N801, N818 - the name that pynvml gives it
    """As the real module raises it."""


class Nvml:
    """What is used of pynvml: one GPU, a figure a call, one process."""

    nvmlMemory_v2 = 2

    def __init__(self, used_mib: Callable[[], float] = lambda: 1000.0, failing: frozenset[str] = frozenset()) -> None:
        self._used = used_mib
        self._failing = failing

    def __getattr__(self, name: str) -> Any:
        if name in self._failing:
            raise NVMLError_DriverNotLoaded("Driver Not Loaded")
        return getattr(self, f"do_{name}")

    def do_nvmlInit(self) -> None: ...

    def do_nvmlDeviceGetCount(self) -> int:
        return 1

    def do_nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def do_nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> SimpleNamespace:
        used = int(self._used() * MIB)
        figures = SimpleNamespace(used=used + 600 * MIB, free=1, total=140_000 * MIB)
        return figures if version is None else SimpleNamespace(used=used, reserved=600 * MIB)

    def do_nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=77, usedGpuMemory=900 * MIB), SimpleNamespace(pid=78, usedGpuMemory=None)]

    def do_nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        return []

    def do_nvmlDeviceGetMPSComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        return []

    def do_nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return b"GPU-5e1f0a00-0000-4000-8000-000000000001"

    def do_nvmlDeviceGetPciInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(busId="00000000:00:06.0")

    def do_nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA H200"

    def do_nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def do_nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13000


def blocking() -> Any:
    """In place of a driver that never answers."""

    def never() -> None:
        threading.Event().wait()

    return SimpleNamespace(nvmlInit=never)


def no_tool(name: str) -> str | None:
    """A machine on which nothing is installed."""
    del name


def machine(proc: Path | str = "/proc", nvml: Callable[[], Any] = Nvml, **parts: Any) -> Machine:
    """Without tools and devices unless they are given."""
    return Machine(**{"proc": str(proc), "dev": "/nowhere", "tool": no_tool, "nvml": nvml, "root": True, **parts})


class Rows:
    """An ``Out`` that keeps what it is given."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.pids: list[int] = []

    def line(self, text: str) -> None:
        self.rows.append(text)

    def started(self, pid: int) -> None:
        self.pids.append(pid)


class ProcTree:
    """A folder that looks like ``/proc``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(
        self,
        pid: int,
        ppid: int = 1,
        *,
        state: str = "S",
        pgid: int = 0,
        sid: int = 0,
        cgroup: str = "/",
        fds: dict[int, str] | None = None,
        maps: str = "",
        threads: dict[int, dict[int, str]] | None = None,
    ) -> Path:
        """A process; ``threads``: further threads with descriptors of their own."""
        folder = self.root / str(pid)
        stat = f"{pid} (a (b) c) {state} {ppid} {pgid} {sid} " + "0 " * 16 + f"50 {0 if state == 'Z' else 4096} 0\n"
        (folder / "fd").mkdir(parents=True)
        (folder / "stat").write_text(stat)
        (folder / "comm").write_text("python3\n")
        (folder / "cmdline").write_text("python3\0serve.py\0")
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        (folder / "status").write_text(f"Name:\tpython3\nPPid:\t{ppid}\n")
        (folder / "maps").write_text(maps)
        links = {pid: fds or {}, **(threads or {})}
        for number, target in (fds or {}).items():
            (folder / "fd" / str(number)).symlink_to(target)
        for thread, descriptors in links.items():
            task = folder / "task" / str(thread)
            (task / "fd").mkdir(parents=True)
            (task / "stat").write_text(stat.replace(str(pid), str(thread), 1))
            for number, target in descriptors.items():
                (task / "fd" / str(number)).symlink_to(target)
        return folder
