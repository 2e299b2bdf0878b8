"""Output without the command that printed it: lines that are no prose, and whose they can be."""

from __future__ import annotations

import re
from typing import List, Optional

_PRINTERS = (
    (
        re.compile(r"\bnvidia-smi\b"),
        re.compile(
            r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\s*\Z|\+-{20,200}|\|[ =].{30,400}\|\s*\Z"
            r"|(?:pid|index|gpu_uuid|uuid|name|timestamp), ?\w"
        ),
    ),
    (
        re.compile(r"\bps\b"),
        re.compile(r" {0,12}(?:F +S +|F +)?(?:USER|UID|PID|PPID) .{0,300}\b(?:CMD|COMMAND|ARGS)\s*\Z"),
    ),
    (re.compile(r"\bfuser\b"), re.compile(r" +USER +PID +ACCESS +COMMAND\s*\Z")),
)
"""Tools by name, and how their tables begin."""
_LINE_CAP = 500


def printed_from(lines: List[str]) -> Optional[int]:
    """Number of the first line that only a tool prints; ``None`` where there is none."""
    return next(
        (number for number, line in enumerate(lines) if any(_begins(shape, line) for _, shape in _PRINTERS)), None
    )


def may_have_printed(command: str, text: str) -> bool:
    """The command is of a tool whose table stands in the text."""
    asked = [shape for name, shape in _PRINTERS if name.search(command)]
    return any(_begins(shape, line) for shape in asked for line in text.split("\n"))


def _begins(shape: re.Pattern[str], line: str) -> bool:
    return len(line) <= _LINE_CAP and shape.match(line) is not None
