"""One PID that somebody asked for: ``kill -0 PID``, ``ps -p PID``, ``ps aux | grep PID``.

That such a question brought no answer says something about that PID, and about nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import PidProbe, Process
from gpudiag.parse import ps
from gpudiag.parse.commands import shown_commands, without_substitutions
from gpudiag.parse.parsed import Row
from gpudiag.parse.segments import Pieces
from gpudiag.parse.silence import echoed
from gpudiag.parse.source import cite_command, place_of
from gpudiag.parse.values import pid_of
from gpudiag.shell.syntax import simple_commands

_NO_SUCH = "No such process"
_NOT_PERMITTED = "Operation not permitted"
_TEXT_CAP = 65536
_PIDS_CAP = 1000


def rows(exhibit: Exhibit, pieces: Pieces, read: Sequence[Row]) -> Iterator[PidProbe]:
    """The answers that one command of a session gives."""
    text = exhibit.command
    if not text or len(text) > _TEXT_CAP or exhibit.outcome not in (None, "ok"):
        return
    commands = [argv for argv in simple_commands(without_substitutions(text)) if argv]
    yield from _signalled(exhibit, pieces, commands)
    yield from _chosen(exhibit, pieces, read)
    yield from _searched(exhibit, commands)


def _signalled(exhibit: Exhibit, pieces: Pieces, commands: Sequence[Sequence[str]]) -> Iterator[PidProbe]:
    """``kill -0``: the kernel says whether there is such a process, whatever ``/proc`` shows."""
    probes = [argv for argv in commands if _program(argv) == "kill" and len(argv) == 3 and argv[1] in ("-0", "-s0")]
    pid = pid_of(probes[0][2]) if len(probes) == 1 else None
    if pid is None:
        return
    code = exhibit.exit_code if exhibit.exit_code is not None else echoed(exhibit, pieces)
    exists = True if code == 0 or _NOT_PERMITTED in exhibit.text else False if _NO_SUCH in exhibit.text else None
    if exists is not None:
        yield PidProbe(place_of(exhibit), pid, exists, "signal", cite_command(exhibit))


def _chosen(exhibit: Exhibit, pieces: Pieces, read: Sequence[Row]) -> Iterator[PidProbe]:
    """``ps -p LIST`` prints a heading and those that there are. An error message is no answer."""
    listed = {row.pid for row in read if isinstance(row, Process)}
    for shown in shown_commands(exhibit.command):
        if shown.tool == "ps" and not shown.filters and not pieces.unclaimed and exhibit.text.strip():
            for pid in _pids_of(shown.argv):
                if pid not in listed:
                    yield PidProbe(place_of(exhibit), pid, False, "table", cite_command(exhibit))


def _pids_of(argv: Sequence[str]) -> list[int]:
    found: list[int] = []
    for word, value in zip(argv[1:], [*argv[2:], ""], strict=True):
        text = value if word in ("-p", "--pid", "p", "-q") else word[6:] if word.startswith("--pid=") else ""
        found += [pid for part in re.split(r"[,\s]+", text) if (pid := pid_of(part)) is not None]
    return found[:_PIDS_CAP]


def _searched(exhibit: Exhibit, commands: Sequence[Sequence[str]]) -> Iterator[PidProbe]:
    """A table of all processes that went through ``grep PID``, and no line is left."""
    for table, search in zip(commands, commands[1:], strict=False):
        words = [word for word in search[1:] if not word.startswith("-")]
        pid = pid_of(words[0]) if _program(search) == "grep" and len(words) == 1 else None
        if pid is None or "-v" in search or not _lists_everybody(exhibit, table):
            continue
        if not re.search(rf"(?<!\d){pid}(?!\d)", exhibit.text):
            yield PidProbe(place_of(exhibit), pid, False, "table", cite_command(exhibit))


def _lists_everybody(exhibit: Exhibit, argv: Sequence[str]) -> bool:
    if _program(argv) == "ls":
        return any(re.match(r"/proc(?:/\[0-9\]\*|/\*|/?\Z)", word) for word in argv[1:])
    shown = next((shown for shown in shown_commands(exhibit.command) if shown.argv == tuple(argv)), None)
    if shown is None or shown.tool != "ps":
        return False
    letters = "".join(word for word in argv[1:2])
    dashed = letters.startswith("-")
    everybody = ("e" in letters or "A" in letters) if dashed else ("a" in letters and "x" in letters)
    return everybody and not _pids_of(argv) and ps.prints_table(shown)


def _program(argv: Sequence[str]) -> str:
    return argv[0].rpartition("/")[2]
