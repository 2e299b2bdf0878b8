"""What PID files held, where somebody printed them: ``cat vllm.pid``, or a loop that prints each name and its PID."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, PidFile
from gpudiag.parse.commands import without_substitutions
from gpudiag.parse.segments import Pieces
from gpudiag.parse.source import QUOTE_CAP, place_of
from gpudiag.parse.values import pid_of
from gpudiag.shell.syntax import simple_commands

_PRINTS = frozenset({"cat", "head", "tail", "echo", "printf", "grep", "more"})
_NAMED = re.compile(r"(?P<path>[\w~.@%+/-]{1,300}\.pids?)(?::\s?|\s{1,8}|=)(?P<pid>\d{1,10})\s*\Z")
_TEXT_CAP = 65536
_LINES_CAP = 1000


def rows(exhibit: Exhibit, pieces: Pieces) -> Iterator[PidFile]:
    """Names with a PID behind them; a bare number where the command printed one file and nothing else."""
    text = exhibit.command
    if not text or len(text) > _TEXT_CAP or exhibit.outcome not in (None, "ok"):
        return
    commands = [argv for argv in simple_commands(text) if argv]
    if not any(argv[0].rpartition("/")[2] in _PRINTS for argv in commands):
        return
    file = _one_file([argv for argv in simple_commands(without_substitutions(text)) if argv])
    for number, line in enumerate(pieces.lines[:_LINES_CAP]):
        named = _NAMED.match(line)
        path, value = (named["path"], named["pid"]) if named else (file, line.strip())
        pid = pid_of(value) if path is not None and value.isdecimal() else None
        if path is not None and pid is not None:
            cited = Citation(exhibit.input, exhibit.member, exhibit.first_line + number, line[:QUOTE_CAP])
            yield PidFile(place_of(exhibit), path, pid, cited)


def _one_file(commands: Sequence[Sequence[str]]) -> str | None:
    if len(commands) != 1 or commands[0][0].rpartition("/")[2] != "cat" or len(commands[0]) != 2:
        return None
    return commands[0][1]
