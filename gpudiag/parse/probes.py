"""One PID that somebody looked for: ``kill -0 PID`` asks the kernel, ``ps aux | grep PID`` what can be listed.

The two answers differ where a process is hidden.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import PidProbe
from gpudiag.parse import ps
from gpudiag.parse.commands import shown_commands, without_substitutions
from gpudiag.parse.segments import Pieces
from gpudiag.parse.silence import echoed
from gpudiag.parse.source import cite_command, place_of
from gpudiag.parse.values import pid_of
from gpudiag.shell.syntax import simple_commands

_NO_SUCH = "No such process"
_NOT_PERMITTED = "Operation not permitted"
_TEXT_CAP = 65536
_CHOOSING = frozenset({"-p", "-C", "-u", "-U", "-t", "-g", "--pid", "--user", "--ppid"})


def rows(exhibit: Exhibit, pieces: Pieces) -> Iterator[PidProbe]:
    """The answers that one command of a session gives."""
    text = exhibit.command
    if not text or len(text) > _TEXT_CAP or exhibit.outcome not in (None, "ok"):
        return
    commands = [argv for argv in simple_commands(without_substitutions(text)) if argv]
    yield from _signalled(exhibit, pieces, commands)
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


def _searched(exhibit: Exhibit, commands: Sequence[Sequence[str]]) -> Iterator[PidProbe]:
    """A table of all processes that went through ``grep PID``, and no line is left."""
    for table, search in itertools.pairwise(commands):
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
    return everybody and not set(argv) & _CHOOSING and ps.prints_table(shown)


def _program(argv: Sequence[str]) -> str:
    return argv[0].rpartition("/")[2]
