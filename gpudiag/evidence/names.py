"""Which files of a directory are about one look, and which about the whole incident."""

from __future__ import annotations

import re
from typing import List, Sequence

FIRST_LOOKS = ("before", "after", "later")
_WHOLE_INCIDENT = re.compile(
    r"(kill-commands\.json|command-begun\.json|nvml-series\.json|trace.*\.txt|format-.*\.txt|trace-clock\.json|"
    r"process-events\.jsonl|watch\.jsonl|.*\.log)\Z",
    re.IGNORECASE,
)

_LOG = re.compile(
    r"(.*\.(log|out)(\.\d{1,3})?|(syslog|messages|kern|dmesg|journal)(ctl)?[\w.-]{0,64})\Z", re.IGNORECASE
)


def look_order(folders: Sequence[str]) -> List[str]:
    """Folder names in the order of their looks: before, after, later, then by name."""
    known = [name for name in FIRST_LOOKS if name in folders]
    return known + sorted(name for name in folders if name not in FIRST_LOOKS)


def about_whole_incident(name: str) -> bool:
    """The file spans several looks whatever folder it lies in."""
    return bool(_WHOLE_INCIDENT.match(name))


def is_log(name: str) -> bool:
    """The file may be a log of any length, which its reader can go through line by line on disk."""
    return bool(_LOG.match(name))


def is_expectation(name: str) -> bool:
    """The file says what the answer should be; reading it would be cheating."""
    return name.endswith(".expect.json")
