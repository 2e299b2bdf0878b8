"""Texts of ``/proc`` that a command reads before it kills, as far as the recorded table tells them.

What is not recorded takes several values: an answer that is the same for all of them does not depend on it.
"""

from __future__ import annotations

import re

from gpudiag.shell.text.base import Lines
from gpudiag.shell.tools.common import is_title
from gpudiag.shell.world import Candidate, World

_PATH = re.compile(r"/proc/(?P<pid>[1-9]\d{0,9})/(?P<file>stat|cmdline|comm)")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_UNKNOWN_NUMBERS = ("0", "7", "94", "18446744073709551615")
_UNKNOWN_NAMES = ("a", "b) S 1", "c d", "e")
_STAT_FIELDS = 52


def read(path: str, world: World) -> tuple[Lines, ...] | None:
    """Every text that the file may have had; nothing in it where there is no such file; ``None``: not known."""
    if path == _BOOT_ID:
        return None if world.boot_id is None else ((world.boot_id,),)
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    process = next((one for one in world.processes if one.pid == int(found["pid"])), None)
    if process is None:
        return ((),) if world.complete else None
    if found["file"] == "stat":
        return tuple(_stat(process, n) for n in range(len(_UNKNOWN_NUMBERS)))
    if found["file"] == "comm":
        return None if process.comm is None or process.comm_cut else ((process.comm,),)
    return _cmdline(process)


def _stat(process: Candidate, variant: int) -> Lines:
    other = _UNKNOWN_NUMBERS[variant]
    fields = [other] * _STAT_FIELDS
    fields[0] = str(process.pid)
    fields[1] = f"({_UNKNOWN_NAMES[variant] if process.comm is None else process.comm})"
    fields[2] = "S"
    known = {4: process.ppid, 5: process.pgid, 6: process.sid, 22: process.start_ticks}
    for number, value in known.items():
        fields[number - 1] = other if value is None else str(value)
    return tuple(" ".join(fields).split("\n"))


def _cmdline(process: Candidate) -> tuple[Lines, ...] | None:
    """With its NULs, of which a table shows blanks; a title leaves the rest of its old arguments as NULs."""
    if process.state == "Z" or process.kernel_thread:
        return ((),)
    line = process.cmdline
    if line is not None and process.text_from == "nvidia-smi":
        return _as_listed(line, whole=is_title(process))
    if line is None or process.cmdline_cut or process.text_from not in ("proc", "ps"):
        return None
    if process.text_from == "ps" and "?" in line:  # ps shows what it cannot print so
        return None
    texts = (f"{line}\0", line.replace(" ", "\0") + "\0", f"{line}\0\0\0\0")
    return tuple(tuple(text.split("\n")) for text in texts)


def _as_listed(name: str, *, whole: bool) -> tuple[Lines, ...]:
    """Of a name in nvidia-smi: the whole line if it is a title, else its beginning; a long path has lost its own."""
    starts = [f"/{folder}{name[3:]}" for folder in ("a", "b/c")] if name.startswith("...") else [name]
    ends = ("\0",) if whole else ("\0", "\0-m\0a.b\0", "\0c d\0")
    return tuple((start + end,) for start in starts for end in ends)


def device_links(path: str, world: World) -> Lines | None:
    """Some of the lines of ``ls -l /proc/PID/fd``: those of the device files that are recorded to be open."""
    found = re.fullmatch(r"/proc/([1-9]\d{0,9})/(?:task/\*/)?fd/?", path)
    held = (world.open_devices or {}).get(int(found[1])) if found is not None else None
    if held is None:
        return None
    return tuple(f"lrwx------ 1 root root 64 Jan  1 00:00 {n} -> {name}" for n, name in enumerate(sorted(held), 3))
