"""What ``kill`` says when a word of its list is no PID: a heading, a name, or an error message stood there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, RefusedWord
from gpudiag.parse.segments import Pieces
from gpudiag.parse.source import QUOTE_CAP, place_of

_MESSAGES = re.compile(
    r"\bkill: "
    r"(?:(?P<bash>[^\s:]{1,60}): arguments must be process or job IDs"
    r"|Illegal number: (?P<dash>\S{1,60})"
    r"|failed to parse argument: '(?P<procps>[^']{1,60})'"
    r'|cannot find process "(?P<util_linux>[^"]{1,60})"'
    r"|illegal pid: (?P<zsh>\S{1,60})"
    r"|invalid number '(?P<busybox>[^']{1,60})')"
)
"""The words of bash, dash, procps, util-linux, zsh and busybox."""
_LINES_CAP = 1000
"""Messages of one exhibit; a loop prints one for each word."""


def refused_words(text: str) -> Iterator[tuple[int, str]]:
    """Zero-based line and word of each message. ``%1`` is a job, not a mistaken PID."""
    found = (
        (number, match) for number, line in enumerate(text.split("\n")) if (match := _MESSAGES.search(line[:2000]))
    )
    for number, match in itertools.islice(found, _LINES_CAP):
        word = next(group for group in match.groups() if group is not None)
        if not word.startswith("%"):
            yield number, word


def rows(exhibit: Exhibit, pieces: Pieces) -> Iterator[RefusedWord]:
    """Messages in what a command printed or in a piece of a script's log."""
    for number, word in refused_words(exhibit.text):
        line = pieces.lines[number][:QUOTE_CAP] if number < len(pieces.lines) else ""
        cited = Citation(exhibit.input, exhibit.member, exhibit.first_line + number, line)
        yield RefusedWord(place_of(exhibit), word, cited)
