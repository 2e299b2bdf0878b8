"""The texts of ``/proc/PID``: stat, status, cmdline, cgroup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpudiag.model import Citation, Place, Process

_STATE, _PPID, _PGRP, _SESSION, _START = 0, 1, 2, 3, 19
"""Positions behind the closing bracket of comm in ``stat`` (fields 3, 4, 5, 6 and 22 of proc(5))."""
KTHREADD = 2
"""PID of the parent of all kernel threads."""


@dataclass(frozen=True)
class Stat:
    """What is used of ``/proc/PID/stat``."""

    comm: str
    state: str
    ppid: int | None
    pgid: int | None
    sid: int | None
    start_ticks: int | None


def parse_stat(text: str) -> Stat | None:
    """Fields of ``stat``; comm may hold blanks and brackets, so it ends at the last bracket."""
    opening, closing = text.find("("), text.rfind(")")
    if opening < 0 or closing < opening:
        return None
    fields = text[closing + 1 :].split()
    if not fields:
        return None
    return Stat(
        comm=text[opening + 1 : closing],
        state=fields[_STATE][:1],
        ppid=_integer(fields, _PPID),
        pgid=_integer(fields, _PGRP),
        sid=_integer(fields, _SESSION),
        start_ticks=_integer(fields, _START),
    )


def parse_status(text: str) -> dict[str, str]:
    """``status`` as a mapping from name to the rest of the line."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name, value.strip())
    return found


def joined_cmdline(raw: str) -> str:
    """The command line as pkill and ps show it: NULs at the end gone, each NUL between two arguments one space."""
    return raw.rstrip("\0").replace("\0", " ")


_FRAME = re.compile(
    r"\[<[0-9a-fA-F]{1,16}>\] (?P<function>[\w.]{1,200})(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?(?P<module> \[\w{1,60}\])?\s*\Z"
)


def stack_frames(lines: Iterable[str]) -> tuple[str, ...]:
    """The functions of ``stack``, innermost first; the module in brackets is kept."""
    return tuple(match["function"] + (match["module"] or "") for line in lines if (match := _FRAME.match(line)))


def unified_cgroup(text: str) -> str | None:
    """Path in the unified hierarchy; ``None`` where only version 1 is in use."""
    for line in text.split("\n"):
        if line.startswith("0::"):
            return line[3:]
    return None


def process(at: Place, pid: int, cited: Citation, texts: Mapping[str, str], tasks: int | None) -> Process:
    """A process from the texts of its ``/proc`` folder, by file name. ``tasks`` is the number of its live threads."""
    stat = parse_stat(texts.get("stat", ""))
    status = parse_status(texts.get("status", ""))
    cmdline = texts.get("cmdline")
    comm = texts.get("comm", "").rstrip("\n") or (stat.comm if stat else None) or status.get("Name")
    ppid = stat.ppid if stat else _number(status.get("PPid"))
    uid = _number((status.get("Uid") or "").partition("\t")[0])
    threads = _number(status.get("Threads"))
    wchan = texts.get("wchan", "").strip()
    return Process(
        at=at,
        pid=pid,
        cited=cited,
        text_from="proc",
        ppid=ppid,
        pgid=stat.pgid if stat else None,
        sid=stat.sid if stat else None,
        user="root" if uid == 0 else None,
        uid=uid,
        state=stat.state if stat else (status.get("State") or "")[:1] or None,
        threads=threads if threads is not None else tasks,
        start_ticks=stat.start_ticks if stat else None,
        comm=comm,
        cmdline=None if cmdline is None else joined_cmdline(cmdline),
        kernel_thread=_kernel_thread(pid, ppid, status.get("Kthread"), cmdline),
        rss_shmem_kib=_number((status.get("RssShmem") or "").partition(" ")[0]),
        sig_pending=_either(_mask(status.get("SigPnd")), _mask(status.get("ShdPnd"))),
        sig_blocked=_mask(status.get("SigBlk")),
        sig_ignored=_mask(status.get("SigIgn")),
        sig_caught=_mask(status.get("SigCgt")),
        # The kernel prints 0 where it does not tell or the task does not wait.
        wchan=None if wchan in ("", "0", "-") else wchan,
        cgroup=unified_cgroup(texts.get("cgroup", "")),
        ns_pids=tuple(pid for pid in map(_number, status.get("NSpid", "").split()) if pid is not None),
        core_dumping=None if "CoreDumping" not in status else status["CoreDumping"] == "1",
    )


def _kernel_thread(pid: int, ppid: int | None, flag: str | None, cmdline: str | None) -> bool | None:
    """Older kernels have no flag for it; in a PID namespace, PID 2 and its children are processes like others."""
    if flag in ("0", "1"):
        return flag == "1"
    if cmdline:
        return False
    return None if ppid is None else KTHREADD in (pid, ppid)


def _either(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) | (other or 0)


def _mask(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text and len(text) < 19 and text.isdecimal() and text.isascii() else None


def _integer(fields: list[str], position: int) -> int | None:
    if position >= len(fields):
        return None
    text = fields[position]
    return _number(text) if not text.startswith("-") else None
