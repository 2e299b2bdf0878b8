"""Tables whose columns begin where their headings begin (docker)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_HEADING = re.compile(r"\S+(?: \S+)*")


def cells(heading: str, line: str) -> Mapping[str, str]:
    """The cells of a row by heading; headings are parted by two blanks or more, and hold single ones."""
    found = [(match.start(), match[0]) for match in _HEADING.finditer(heading)]
    ends = [start for start, _ in found[1:]] + [len(line)]
    return {name: line[start:end].strip() for (start, name), end in zip(found, ends, strict=True)}
