"""Which machine this is, and which of its processes are the tool's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""Of the machine itself. Linux gives it this number always."""


class Own(NamedTuple):
    """Processes of the tool in one PID namespace of one boot."""

    boot_id: str | None
    """``/proc/sys/kernel/random/boot_id``."""
    pid_namespace: str | None
    """``readlink /proc/self/ns/pid``: ``pid:[4026531836]``."""
    pids: tuple[int, ...]

    def seen_from(self, other: Own) -> tuple[int, ...]:
        """Its PIDs, where they mean the same processes to the other; elsewhere none."""
        known = self.boot_id is not None and self.pid_namespace is not None
        same = (self.boot_id, self.pid_namespace) == (other.boot_id, other.pid_namespace)
        return self.pids if known and same else ()


NOBODY = Own(None, None, ())


def own(proc: str = "/proc") -> Own:
    """This process and its ancestors."""
    boot_id = _read(f"{proc}/sys/kernel/random/boot_id")
    return Own(boot_id, own_pid_namespace(proc), tuple(_line(proc)))


def own_pid_namespace(proc: str = "/proc") -> str | None:
    """As ``INITIAL_PID_NAMESPACE`` is written."""
    return _link(f"{proc}/self/ns/pid")


def _line(proc: str) -> list[int]:
    """PID 1 is the ancestor of everybody, so it is nobody's in particular."""
    pid = os.getpid()
    line = [pid]
    while pid > 1:
        stat = _read(f"{proc}/{pid}/stat") or ""
        fields = stat[stat.rfind(")") + 1 :].split()
        pid = int(fields[1]) if len(fields) > 1 and fields[1].isdecimal() else 0
        if pid in line:
            break
        if pid > 1:
            line.append(pid)
    return line


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return None
