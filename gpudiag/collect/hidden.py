"""Whether ``/proc`` shows everybody's processes: its mount option ``hidepid``."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNT = re.compile(r"^\S+ (?P<where>\S+) proc (?P<options>\S+)", re.MULTILINE)
_OPEN = ("0", "off", "1", "noaccess")
"""Values with which every process has at least its folder."""
_CAP = 1 << 18


def own_hidepid(proc: str) -> str | None:
    """Of the ``/proc`` that this process has; ``None``: not known."""
    try:
        with Path(f"{proc}/self/mounts").open(encoding="utf-8", errors="replace") as file:
            return hidepid(file.read(_CAP), "/proc")
    except OSError:
        return None


def hidepid(mounts: str, where: str) -> str | None:
    """The option of the mount on ``/proc``: ``0`` where it has none, ``None`` where there is no such mount."""
    found = [match["options"] for match in _MOUNT.finditer(mounts) if match["where"] == where]
    if not found:
        return None
    values = [option[8:] for option in found[-1].split(",") if option.startswith("hidepid=")]
    return values[-1] if values else "0"


def hides(value: str | None) -> bool:
    """Processes of others are not there at all for who has no right to trace them."""
    return value is not None and value not in _OPEN
