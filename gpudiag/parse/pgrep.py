"""``pgrep -a`` and ``pgrep -l``: PID with command line, or with comm. It lists what matches, never the whole table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Process
from gpudiag.parse.commands import Shown
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of

_ROW = re.compile(r"(\d{1,10})(?: (\S.*))?\Z")


def prints_rows(shown: Shown) -> bool:
    """One process a line: no count, no other delimiter."""
    return shown.tool == "pgrep" and not shown.reshaped and not (_letters(shown) & set("cd"))


def fits(line: str) -> bool:
    """A PID, perhaps with a text behind it."""
    return bool(_ROW.match(line))


def rows(segment: Segment) -> Iterator[Row]:
    """One process a line."""
    full = segment.shown is not None and bool(_letters(segment.shown) & {"a"})
    for offset, line in enumerate(segment.lines):
        match = _ROW.match(line)
        pid = pid_of(match[1]) if match else None
        if match is None or pid is None:
            continue
        yield Process(
            at=segment.place,
            pid=pid,
            cited=segment.cite(offset),
            text_from="ps",
            comm=None if full else match[2],
            cmdline=match[2] if full else None,
        )
    yield segment.coverage("process table", complete=False)


def _letters(shown: Shown) -> set[str]:
    words = (word for word in shown.argv[1:] if re.fullmatch(r"-[a-zA-Z]+", word))
    long = {"--list-full": "a", "--list-name": "l", "--count": "c", "--delimiter": "d"}
    return set("".join(words)) | {long[word] for word in shown.argv[1:] if word in long}
