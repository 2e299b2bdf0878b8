"""One process as the ring has it: few texts of ``/proc``, already taken apart, because they are read all the time."""

from __future__ import annotations

import os
from typing import NamedTuple

from gpudiag.redact.hint import may_hold_secret
from gpudiag.redact.redactor import Redactor

_STATE, _PPID, _PGRP, _SESSION, _FLAGS, _START = 0, 1, 2, 3, 6, 19
"""Positions behind the closing bracket of comm in ``stat``."""
_PF_KTHREAD = 0x00200000
_STATUS = (b"Uid:", b"NSpid:", b"SigBlk:", b"SigIgn:", b"SigCgt:", b"Threads:")
_CMDLINE_CAP = 4096
"""Bytes of a command line. What is longer is said to be cut."""
_CGROUP_CAP = 512
_MAPS_CAP = 64 << 20
_CHUNK = 1 << 16
_DEVICE = "/dev/nvidia"
QUIET = "RSDI"
"""States between which a process changes all the time: no news."""

Row = dict[str, object]


class Stat(NamedTuple):
    """What is used of ``/proc/PID/stat``."""

    comm: str
    state: str
    ppid: int
    pgid: int
    sid: int
    start: int
    """Clock ticks since boot."""
    kernel: bool
    """It is a kernel thread."""


class Reader:
    """Reads processes. What waits for a lock of the process that it is about is read last and announced."""

    def __init__(self, proc: str, about: memoryview, spared: frozenset[int]) -> None:
        """``about``: where the PID is noted while a read may hang; ``spared``: those that did hang."""
        self._proc = proc
        self._about = about
        self._spared = spared
        self._redactor = Redactor()

    def stat(self, pid: int) -> Stat | None:
        """``None``: there is no such process."""
        data = _read(f"{self._proc}/{pid}/stat", 4096)
        if data is None:
            return None
        opening, closing = data.find(b"("), data.rfind(b")")
        fields = data[closing + 1 :].split()
        if len(fields) <= _START:
            return None
        return Stat(
            comm=data[opening + 1 : closing].decode("utf-8", "replace"),
            state=fields[_STATE].decode("ascii", "replace")[:1],
            ppid=int(fields[_PPID]),
            pgid=int(fields[_PGRP]),
            sid=int(fields[_SESSION]),
            start=int(fields[_START]),
            kernel=bool(int(fields[_FLAGS]) & _PF_KTHREAD),
        )

    def brief(self, pid: int, stat: Stat) -> Row:
        """What can be had of a process that may live for a few milliseconds only."""
        row: Row = dict(zip(("comm", "state", "ppid", "pgid", "sid"), stat[:5]))
        if stat.state not in "ZX":
            row.update(self.cmdline(pid))
        try:
            row["uid"] = os.stat(f"{self._proc}/{pid}").st_uid  # noqa: PTH116
        except OSError:
            row.pop("uid", None)
        return row

    def full(self, pid: int, stat: Stat) -> Row:
        """Everything."""
        base = f"{self._proc}/{pid}"
        row = self.brief(pid, stat)
        for line in (_read(f"{base}/status", 8192) or b"").split(b"\n"):
            if line.startswith(_STATUS):
                row.update(_of_status(line))
        group = _read(f"{base}/cgroup", 4096)
        if group is not None:
            row["cgroup"] = _unified(group.decode("utf-8", "replace"))
        devices = None if stat.state in "ZX" else self._devices(base)
        if devices is not None:
            row["fds"] = devices
            row["maps"] = self._maps(pid) if devices else []
        return row

    def cmdline(self, pid: int) -> Row:
        """The command line alone, and whether it is cut; nothing where it cannot be read."""
        data = self._announced(pid, "cmdline", _CMDLINE_CAP + 1)
        if data is None:
            return {}
        # A process that has changed its title leaves NULs behind it.
        kept = data[:_CMDLINE_CAP].rstrip(b"\0")
        text = kept.decode("utf-8", "replace")
        # All words at once: hardly any command line has a secret, and all are read all the time.
        row: Row = {"cmdline": self._redactor.cmdline(text) if may_hold_secret(text) else text}
        if len(data) > _CMDLINE_CAP == len(kept):
            row["cut"] = True
        return row

    def _devices(self, base: str) -> list[str] | None:
        try:
            numbers = os.listdir(f"{base}/fd")  # noqa: PTH208 - names
        except OSError:
            return None
        found: set[str] = set()
        for number in numbers:
            try:
                target = os.readlink(f"{base}/fd/{number}")  # noqa: PTH115
            except OSError:
                continue
            if target.startswith(_DEVICE):
                found.add(target)
        return sorted(found)

    def _maps(self, pid: int) -> list[str]:
        data = self._announced(pid, "maps", _MAPS_CAP) or b""
        lines = (line.split(None, 5) for line in data.split(b"\n") if _DEVICE.encode() in line)
        paths = {parts[5].decode("utf-8", "replace") for parts in lines if len(parts) == 6}
        return sorted(path for path in paths if path.startswith(_DEVICE))

    def _announced(self, pid: int, name: str, cap: int) -> bytes | None:
        if pid in self._spared:
            return None
        self._about[:4] = pid.to_bytes(4, "little")
        try:
            return _read(f"{self._proc}/{pid}/{name}", cap)
        finally:
            self._about[:4] = b"\0\0\0\0"


def _of_status(line: bytes) -> Row:
    name, _, rest = line.decode("ascii", "replace").partition(":")
    words = rest.split()
    if name == "Uid":
        return {"uid": int(words[0])}
    if name == "NSpid":
        return {"nspid": [int(word) for word in words]} if len(words) > 1 else {}
    if name == "Threads":
        return {"threads": int(words[0])}
    return {name.lower(): words[0]}


def _unified(text: str) -> str:
    lines = [line[3:] for line in text.split("\n") if line.startswith("0::")]
    return lines[0][:_CGROUP_CAP] if lines else ""


def _read(path: str, cap: int) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts: list[bytes] = []
        left = cap
        while left > 0:
            data = os.read(file, min(left, _CHUNK))
            if not data:
                break
            parts.append(data)
            left -= len(data)
            if len(data) < min(left, 4096) and cap <= 8192:
                break
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(file)
