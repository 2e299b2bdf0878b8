"""With whose rights a tool looked, as far as the command line and the prompt tell."""

from __future__ import annotations

import re

from gpudiag.parse.source import Segment


def ran_as_root(segment: Segment, tool: str) -> bool | None:
    """``sudo TOOL``, or a prompt of root without a change of user."""
    command = segment.exhibit.command or ""
    if re.search(rf"\bsudo\s+(?!-u)\S*{re.escape(tool)}\b", command):
        return True
    if segment.exhibit.user is None or re.search(r"\b(?:su|sudo|runuser|unshare)\b", command):
        return None
    return segment.exhibit.user == "root"
