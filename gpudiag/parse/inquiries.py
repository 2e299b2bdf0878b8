"""Questions about chosen processes: ``ps -p``, ``ps -C``, ``ps -ef | grep``, ``pgrep``, ``ls /proc/PID``.

Such a list says nothing about the rest of the table. About the processes that it asks for it says all: one that it
does not show was not there. Which processes pass a filter only the timeline can tell, from their recorded texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, Inquiry
from gpudiag.parse import ps
from gpudiag.parse.commands import Shown, shown_commands
from gpudiag.parse.segments import Pieces
from gpudiag.parse.source import QUOTE_CAP, cite_command, is_omission, place_of
from gpudiag.parse.values import pid_of
from gpudiag.shell.lines import Step
from gpudiag.shell.syntax import parse_line, program_of

_FAILED = re.compile(
    r"command not found|: not found|[Pp]ermission denied|not permitted|[Cc]onnection (?:refused|closed|timed out)"
    r"|Could not resolve|Killed|Terminated|error:|Usage:|No such container"
)
_NO_FOLDER = re.compile(r"/proc/(\d{1,10})\b[^\n]{0,40}No such file or directory")
_BY_NUMBER = frozenset({"-p", "-q", "--pid", "--quick-pid", "p", "q"})
_BY_COMM = frozenset({"-C"})
_INTERRUPTED = frozenset({124, 130, 137, 143, -2, -9, -15})
_MAX_ASKED = 4096


def rows(exhibit: Exhibit, pieces: Pieces) -> Iterator[Inquiry]:
    """One inquiry a command that was answered."""
    if exhibit.container is not None:
        return  # its PIDs are not those of the host
    yield from _missing_folders(exhibit, pieces)
    if exhibit.exit_code in _INTERRUPTED or any(is_omission(line) for line in pieces.lines):
        return
    if any(_FAILED.search(pieces.lines[position][:QUOTE_CAP]) for position in pieces.unclaimed):
        return
    answered = {cut.segment.shown.tool for cut in pieces.cuts if cut.segment.shown is not None}
    for stages in _pipelines(exhibit.command):
        program = program_of(stages[0])
        if program in answered or not pieces.unclaimed:
            yield from _inquiries(exhibit, program, stages)


def _missing_folders(exhibit: Exhibit, pieces: Pieces) -> Iterator[Inquiry]:
    """``ls``, ``cat`` and others say that there is no such folder below ``/proc``."""
    for position in pieces.unclaimed:
        found = _NO_FOLDER.search(pieces.lines[position][:QUOTE_CAP])
        pid = pid_of(found[1]) if found else None
        if pid is not None:
            line = exhibit.first_line + position
            cited = Citation(exhibit.input, exhibit.member, line, pieces.lines[position][:QUOTE_CAP])
            yield Inquiry(place_of(exhibit), cited, pids=(pid,))


def _pipelines(command: str | None) -> Iterator[Sequence[Step]]:
    """The line's commands, each with what its output went through."""
    stages: list[Step] = []
    for step in parse_line(command or "", how="prompt").steps:
        if stages and step.connector != "|":
            yield stages
            stages = []
        stages.append(step)
    if stages:
        yield stages


def _inquiries(exhibit: Exhibit, program: str | None, stages: Sequence[Step]) -> Iterator[Inquiry]:
    place, cited = place_of(exhibit), cite_command(exhibit)
    if stages[0].container is not None or any(word.text is None for stage in stages for word in stage.words):
        return
    text = " | ".join(stage.text for stage in stages)
    if program == "pgrep":
        yield Inquiry(place, cited, pipeline=text)
    elif program == "ps":
        shown = next(iter(shown_commands(stages[0].text)), None)
        if len(stages) > 1 and shown is not None and ps.scope_of(shown, None).everything:
            yield Inquiry(place, cited, pipeline=text)
        elif len(stages) == 1 and shown is not None:
            yield from _chosen(exhibit, shown)


def _chosen(exhibit: Exhibit, shown: Shown) -> Iterator[Inquiry]:
    """``ps -p 7,8`` and ``ps -C NAME``; with both, a process needs only one of them to be listed."""
    pids: list[int] = []
    comms: list[str] = []
    words = [*shown.argv[1:], ""]
    for position, word in enumerate(words[:-1]):
        option, glued, value = word.partition("=")
        value = value if glued else words[position + 1]
        if option in _BY_NUMBER:
            pids += [pid for number in re.split(r"[,\s]+", value) if (pid := pid_of(number)) is not None]
        elif re.fullmatch(r"-p\d[\d,]*", word):
            pids += [pid for number in word[2:].split(",") if (pid := pid_of(number)) is not None]
        elif option in _BY_COMM:
            comms += [name for name in value.split(",") if name]
    if pids or comms:
        yield Inquiry(place_of(exhibit), cite_command(exhibit), tuple(pids[:_MAX_ASKED]), tuple(comms[:_MAX_ASKED]))
