"""The machine that is looked at. Tests put other files, tools and libraries in its place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

_FALLBACKS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib")
"""Searched behind PATH: the driver's container hook, and what a root shell of su leaves out."""


def find_tool(name: str) -> str | None:
    """Path of a program, by PATH and by the places where it usually lies."""
    for folder in (*os.environ.get("PATH", "").split(":"), *_FALLBACKS):
        path = f"{folder}/{name}"
        if folder.startswith("/") and os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
    return None


def load_nvml() -> Any:
    """NVML, initialised; ``NvmlError`` where it cannot be had. Called in a child process only: it may never return."""
    from gpudiag.collect.libnvml import Library

    return Library()


def tool_environment() -> Mapping[str, str]:
    """The environment in which programs run: their words and numbers in the C locale, unpaged."""
    return {**os.environ, "LC_ALL": "C", "LANG": "C", "PAGER": "cat", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}


class Machine(NamedTuple):
    """Where its parts are found."""

    proc: str = "/proc"
    dev: str = "/dev"
    tool: Callable[[str], str | None] = find_tool
    nvml: Callable[[], Any] = load_nvml
    root: bool = os.geteuid() == 0
    """The collector has root's rights."""
