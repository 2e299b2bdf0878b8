"""Ctrl-C: the terminal shows it as ``^C`` and sends SIGINT to the job in the foreground."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.evidence.interrupts import interrupted_line
from gpudiag.kill_words import first_kill
from gpudiag.model import Citation, Interrupt
from gpudiag.parse.segments import Pieces
from gpudiag.parse.source import QUOTE_CAP, place_of
from gpudiag.parse.values import pid_of

_OWN_PID = re.compile(
    r"(?:\b(?:Started|Finished) server process \[|\bBooting worker with pid: |\A\([\w.:-]{1,40} pid=)"
    r"(?P<pid>\d{1,10})\b"
)
"""How a job's own log names its processes (uvicorn, gunicorn, vLLM); any other number may be somebody else's."""
_ELSEWHERE = re.compile(r"(?:sudo\s+)?(?:docker|podman|nerdctl|kubectl|apptainer|singularity|enroot|srun|mpirun|ray)\b")
"""Clients: what runs under them has PIDs of another namespace or host."""
_LINES_CAP = 100_000


def rows(exhibit: Exhibit, pieces: Pieces) -> Iterator[Interrupt]:
    """One row where the foreground job of an interactive shell was interrupted."""
    text = exhibit.command or ""
    number = interrupted_line(text, pieces.lines)
    if number is None or first_kill(text) is not None:
        return
    command = _foreground(text, pieces.lines)
    lines = () if _ELSEWHERE.match(command) else pieces.lines[:_LINES_CAP]
    pids = {pid for line in lines for pid in _own_pids(line)}
    cited = Citation(exhibit.input, exhibit.member, exhibit.first_line + number, pieces.lines[number][:QUOTE_CAP])
    yield Interrupt(place_of(exhibit), command, tuple(sorted(pids)), exhibit.user, cited)


def _foreground(command: str, lines: tuple[str, ...]) -> str:
    """``fg`` prints the command line of the job that it brings back."""
    if re.fullmatch(r"fg(?:\s+%\S{1,20})?", command.strip()) and lines and not lines[0].startswith("^"):
        return lines[0].strip()
    return command.strip()


def _own_pids(line: str) -> Iterator[int]:
    for match in _OWN_PID.finditer(line[:2000]):
        pid = pid_of(match["pid"])
        if pid is not None:
            yield pid
