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
_SOON_S = 2.0
"""So long after its start a shell has begun with what it is to run."""
_BUILT_IN = re.compile(r"(?<![\w/-])kill(?![\w-])")
_DEPTH = 8
_TICKS = 100.0
_PROGRAMS_CAP = 200_000


class _Program:
    """One command line of one process."""

    __slots__ = ("before", "code", "ended_s", "error_s", "gone", "pid", "ppid", "start", "time_s", "uid", "words")

    def __init__(self, row: Row, time_s: float, error_s: float, before: _Program | None) -> None:
        self.pid = row["pid"]
        self.start = row["start"]
        self.words = [word for word in str(row["cmdline"]).split("\0") if word]
        self.ppid = row.get("ppid", None if before is None else before.ppid)
        self.uid = row.get("uid", None if before is None else before.uid)
        self.time_s = time_s
        self.error_s = error_s
        self.gone = False
        self.ended_s: float | None = None
        """Where the kernel told."""
        self.code: int | None = None
        self.before = before
        """What the same process was before."""

    def end(self, row: Row, time_s: float) -> None:
        """It is gone; by the kernel's word also when, and how."""
        self.gone = True
        if row.get("exact") is True:
            self.ended_s = time_s
            self.code = _code(row)


def commands(lines: Iterable[bytes], names: Mapping[int, str]) -> Iterator[Issued]:
    """Those that no other one of them carries. ``names``: user names by UID."""
    programs = _programs(lines)
    by_pid: dict[object, list[_Program]] = {}
    for program in programs:
        by_pid.setdefault(program.pid, []).append(program)
    killers = [program for program in programs if _may_kill(program)]
    known = set(map(id, killers))
    carriers = {id(program): [one for one in _carriers(program, by_pid) if id(one) in known] for program in killers}
    at_work = {id(carrier) for program in killers for carrier in carriers[id(program)]}
    exact = any(program.ended_s is not None for program in programs)
    newest_s = max((program.time_s for program in programs), default=0.0)
    for program in killers:
        waits = exact and id(program) not in at_work and newest_s - program.time_s > _SOON_S
        if not carriers[id(program)] and not (waits and _has_killed_nobody(program)):
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
    name = _name(program)
    # Other programs may have such a word among their arguments, too: an editor, a test, this tool.
    if not _is_given_a_line(program) and not _KILLERS.fullmatch(name) and not _CARRIERS.fullmatch(name):
        return False
    text = shlex.join(program.words)
    return "gpudiag" not in text and (may_kill(text) or may_kill(" ".join(program.words)))


def _has_killed_nobody(program: _Program) -> bool:
    """A shell that is still there, in whose line no kill of its own stands: what it starts to kill would be seen."""
    return not program.gone and _is_given_a_line(program) and _BUILT_IN.search(" ".join(program.words)) is None


def _is_given_a_line(program: _Program) -> bool:
    name = _name(program)
    return _SHELLS.fullmatch(name) is not None and any(
        word.startswith("-") and "c" in word for word in program.words[1:4]
    )


def _name(program: _Program) -> str:
    return program.words[0].rpartition("/")[2].lstrip("-") if program.words else ""


def _passes_on(program: _Program) -> bool:
    """Its command line holds the words of what it runs; those of a script file or of a prompt stand nowhere."""
    return _is_given_a_line(program) or _CARRIERS.fullmatch(_name(program)) is not None or _name(program) == "sudo"


def _carriers(program: _Program, by_pid: Mapping[object, list[_Program]]) -> Iterator[_Program]:
    """Its ancestors when it began that may hold its words; a forked copy of its parent is carried by it, too."""
    child = program
    for _ in range(_DEPTH):
        older = [item for item in by_pid.get(child.ppid, ()) if item.time_s - item.error_s <= child.time_s]
        if not older:
            return
        child = older[-1]
        if not _passes_on(child):
            return
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
            if program is not None and program.start == row.get("start"):
                program.end(row, time_s)
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
