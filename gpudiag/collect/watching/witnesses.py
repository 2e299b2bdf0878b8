"""Commands that kill, as a flight recorder saw them run: their words, when they began, how they ended."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from gpudiag.collect.issued import Issued
from gpudiag.collect.watching.known import Row
from gpudiag.kill_words import may_kill

_KILLERS = re.compile(
    r"pkill|kill|killall5?|skill|xkill|fuser|docker|podman|nerdctl|crictl|systemctl|service|kubectl|helm|scancel|qdel"
    r"|bkill|ray|supervisorctl|pm2|tmux|screen|lxc|virsh|nvidia-smi|reboot|shutdown|poweroff"
)
_CARRIERS = re.compile(r"ssh|pdsh|clush|srun|nsenter|chroot|xargs|timeout|env|nohup|setsid|nice|parallel|watch")
"""They run what stands behind them. What sudo runs has a line of its own, with the exact words."""
_SHELLS = re.compile(r"(?:ba|da|z|k|a|fi)?sh|busybox")
_MARKS = (b'"cmdline"', b'"gone"', b'"ring"')
_EXACT_S = 0.02
_SECOND_S = 1.0
_CARRIED_S = 60.0
"""So long after its start what a shell runs is what its command line says; later it may be the turn of a loop."""
_DEPTH = 8
_TICKS = 100.0
_PROGRAMS_CAP = 200_000


class _Program:
    """One command line of one process."""

    __slots__ = ("before", "code", "ended_s", "error_s", "pid", "ppid", "start", "time_s", "uid", "words")

    def __init__(self, row: Row, time_s: float, error_s: float, before: _Program | None) -> None:
        self.pid = row["pid"]
        self.start = row["start"]
        self.words = [word for word in str(row["cmdline"]).split("\0") if word]
        self.ppid = row.get("ppid", None if before is None else before.ppid)
        self.uid = row.get("uid", None if before is None else before.uid)
        self.time_s = time_s
        self.error_s = error_s
        self.ended_s: float | None = None
        self.code: int | None = None
        self.before = before
        """What the same process was before."""


def commands(lines: Iterable[bytes], names: Mapping[int, str]) -> Iterator[Issued]:
    """Those that no other one of them carries. ``names``: user names by UID."""
    programs = _programs(lines)
    by_pid: dict[object, list[_Program]] = {}
    for program in programs:
        by_pid.setdefault(program.pid, []).append(program)
    killers = [program for program in programs if _may_kill(program)]
    known = set(map(id, killers))
    for program in killers:
        if not any(id(parent) in known for parent in _carriers(program, by_pid)):
            yield Issued(
                text=shlex.join(program.words),
                source="watch",
                time_s=program.time_s,
                error_s=program.error_s,
                user=names.get(cast("int", program.uid), str(program.uid)) if program.uid is not None else None,
                argv=tuple(program.words),
                ended_s=program.ended_s,
                exit_code=program.code,
            )


def _may_kill(program: _Program) -> bool:
    words = program.words
    name = words[0].rpartition("/")[2].lstrip("-") if words else ""
    # Other programs may have such a word among their arguments, too: an editor, a test, this tool.
    scripted = _SHELLS.fullmatch(name) is not None and any(word.startswith("-") and "c" in word for word in words[1:4])
    if not scripted and not _KILLERS.fullmatch(name) and not _CARRIERS.fullmatch(name):
        return False
    text = shlex.join(words)
    return "gpudiag" not in text and (may_kill(text) or may_kill(" ".join(words)))


def _carriers(program: _Program, by_pid: Mapping[object, list[_Program]]) -> Iterator[_Program]:
    """Its ancestors when it began; a forked copy of its parent is carried by it, too."""
    child = program
    for _ in range(_DEPTH):
        older = [item for item in by_pid.get(child.ppid, ()) if item.time_s - item.error_s <= child.time_s]
        if not older:
            return
        child = older[-1]
        if program.time_s - child.time_s <= _CARRIED_S:
            yield child


def _programs(lines: Iterable[bytes]) -> list[_Program]:
    found: list[_Program] = []
    running: dict[object, _Program] = {}
    boot_s = None
    for line in lines:
        # Most lines are about figures and states; to parse them all takes seconds.
        if not any(mark in line for mark in _MARKS):
            continue
        row = _row(line)
        kind, time_s = row.get("is"), row.get("t")
        if not isinstance(time_s, (int, float)):
            continue
        if kind == "ring" and isinstance(row.get("boot_s"), (int, float)):
            boot_s = time_s - cast("float", row["boot_s"])
        elif kind == "gone":
            program = running.pop(row.get("pid"), None)
            if program is not None and program.start == row.get("start") and row.get("exact") is True:
                program.ended_s = time_s
                program.code = _code(row)
        elif kind == "proc" and isinstance(row.get("cmdline"), str) and isinstance(row.get("start"), int):
            before = running.get(row.get("pid"))
            if before is not None and before.start != row["start"]:
                before = None
            began, error = time_s, _SECOND_S
            if before is None and boot_s is not None:
                began, error = boot_s + cast("int", row["start"]) / _TICKS, _EXACT_S
            if before is None or before.words != [word for word in str(row["cmdline"]).split("\0") if word]:
                program = _Program(row, began, error, before)
                running[row.get("pid")] = program
                if len(found) < _PROGRAMS_CAP:
                    found.append(program)
    return found


def _code(row: Row) -> int | None:
    """As Python's ``subprocess`` counts: the negative signal where one ended it."""
    signal, code = row.get("signal"), row.get("code")
    return -signal if isinstance(signal, int) else code if isinstance(code, int) else None


def _row(line: bytes) -> Row:
    try:
        value: object = json.loads(line)
    except ValueError:
        return {}
    return cast("Row", value) if isinstance(value, dict) else {}
