"""A machine made of files and of a stub in NVML's place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpudiag.collect.libnvml import DRIVER_NOT_LOADED, NO_PERMISSION, NOT_SUPPORTED, Accounted, Listed, NvmlError
from gpudiag.collect.machine import Machine

MIB = 1 << 20


class Nvml:
    """What is asked of NVML: one GPU, a figure a call, one process with a size and one without."""

    def __init__(self, used_mib: Callable[[], float] = lambda: 1000.0, failing: frozenset[str] = frozenset()) -> None:
        self._used = used_mib
        self._failing = failing

    def count(self) -> int:
        return 1

    def gpu(self, index: int) -> int:
        return index

    def memory(self, handle: int) -> SimpleNamespace:
        self._latest = int(self._used() * MIB)
        return SimpleNamespace(used=self._latest + 600 * MIB, free=1, total=140_000 * MIB)

    def memory_v2(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(used=self._latest, reserved=600 * MIB)

    def processes(self, handle: int, kind: str) -> list[Listed]:
        if kind in self._failing:
            raise NvmlError(NO_PERMISSION, "Insufficient Permissions")
        return [Listed(77, 900 * MIB), Listed(78, None)] if kind == "Compute" else []

    def uuid(self, handle: int) -> str:
        return "GPU-5e1f0a00-0000-4000-8000-000000000001"

    def bus_id(self, handle: int) -> str:
        return "00000000:00:06.0"

    def name(self, handle: int) -> str:
        return "NVIDIA H200"

    def recovery_action(self, handle: int) -> int:
        return 1

    def accounting(self, handle: int) -> bool:
        return True

    def accounted(self, handle: int) -> list[Accounted]:
        return [Accounted(41, 70_000 * MIB, 1_771_614_000_000_000, 61_000, False)]

    def mig_enabled(self, handle: int) -> bool:
        raise NvmlError(NOT_SUPPORTED, "Not Supported")

    def driver_version(self) -> str:
        return "580.1"

    def cuda_version(self) -> str:
        return "13.0"


def no_driver() -> Any:
    """In place of a driver that is not loaded."""
    raise NvmlError(DRIVER_NOT_LOADED, "Driver Not Loaded")


def blocking() -> Any:
    """In place of a driver that never answers."""
    threading.Event().wait()


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
        kernel: bool = False,
        pgid: int = 0,
        sid: int = 0,
        cgroup: str = "/",
        fds: dict[int, str] | None = None,
        maps: str = "",
        threads: dict[int, dict[int, str]] | None = None,
    ) -> Path:
        """A process; ``threads``: further threads with descriptors of their own."""
        folder = self.root / str(pid)
        stat = (
            f"{pid} (a (b) c) {state} {ppid} {pgid} {sid} "
            + "0 " * 15
            + f"50 {0 if state == 'Z' or kernel else 4096} 0\n"
        )
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
