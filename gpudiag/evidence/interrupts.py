"""``^C`` in what a typed command printed: it ended, or tried to end, the job in the foreground."""

from __future__ import annotations

import re
from typing import Optional, Sequence

_LINES_CAP = 100_000
_ONLY_SHOWS = re.compile(
    r"\s*(?:sudo\s+)?(?:watch|tail|less|more|top|htop|nvtop|nvitop|gpustat|nvidia-smi|journalctl|dmesg|docker\s+logs|curl|"
    r"kubectl\s+logs|strace|py-spy|ping|sleep|vi|vim|nano|man|ssh)\b"
)
"""Programs that show something: their end changes nothing on the GPU."""


def interrupted_line(command: str, lines: Sequence[str]) -> Optional[int]:
    """Zero-based line at which a job was interrupted; ``None`` if none was, or only a program that shows things."""
    if not command.strip() or _ONLY_SHOWS.match(command):
        return None
    for number, line in enumerate(lines[:_LINES_CAP]):
        if line.startswith("^C"):
            return number
    return None
