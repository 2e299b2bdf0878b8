"""The two lines that a capture writes above a tool's output: ``# <time> $ <command>`` and ``# rc=<n>``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Optional

_COMMAND = re.compile(r"# (?:(\d{4}-\d\d-\d\dT\S+) )?\$ (\S.*)")
_EXIT = re.compile(r"# rc=(?:(-?\d{1,9})|\S*)(?:\s|$)", re.ASCII)
_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9})\d*)?\s?(Z|UTC|[+-]\d\d:?\d\d)?", re.ASCII
)


@dataclass(frozen=True)
class Headed:
    """A text with its header taken off."""

    command: Optional[str]
    time_ns: Optional[int]
    exit_code: Optional[int]
    first_line: int
    """One-based line of the body in the file."""
    text: str


def split_header(text: str) -> Headed:
    """Take the header lines off, if there are any; either may be missing."""
    command: Optional[str] = None
    time_ns: Optional[int] = None
    exit_code: Optional[int] = None
    taken = 0
    rest = text
    line, rest_after = _first_line(rest)
    match = _COMMAND.match(line)
    if match:
        command, time_ns = match[2].rstrip("\r"), instant_ns(match[1] or "")
        rest, taken = rest_after, taken + 1
        line, rest_after = _first_line(rest)
    match = _EXIT.match(line)
    if match:
        exit_code = int(match[1]) if match[1] else None
        rest, taken = rest_after, taken + 1
    return Headed(command, time_ns, exit_code, taken + 1, rest)


def has_header(text: str) -> bool:
    """The first line names a command as captures do."""
    return bool(_COMMAND.match(_first_line(text)[0]))


def instant_ns(text: str) -> Optional[int]:
    """A date with time and zone, in nanoseconds since the epoch; ``None`` without a zone or if it is no date."""
    found = stamp_ns(text)
    return None if found is None or not found[1] else found[0]


_FARTHEST_S = 9_000_000_000


def stamp_ns(text: str) -> Optional[tuple[int, bool]]:
    """A date with time in nanoseconds, read as UTC where it has no zone; the flag says whether it has one."""
    match = _INSTANT.match(text)
    if not match:
        return None
    date, clock, fraction, zone = match.groups()
    offset = "+00:00" if zone in (None, "Z", "UTC") else zone[:3] + ":" + zone[-2:]
    seconds = clock if len(clock) == 8 else clock + ":00"
    try:
        moment = datetime.fromisoformat(f"{date}T{seconds}{offset}")
        whole = int((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds())
    except (ValueError, OverflowError):
        return None
    if abs(whole) > _FARTHEST_S:
        return None  # nanoseconds since 1970 in 64 bits end in 2262
    return whole * 1_000_000_000 + int((fraction or "").ljust(9, "0")), zone is not None


def _first_line(text: str) -> tuple[str, str]:
    line, _, rest = text.partition("\n")
    return line, rest
