"""Whether two rows about one PID can be about one process, where neither tells its exact start."""

from __future__ import annotations

import re

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?")
_DAY = re.compile(r"[A-Z][a-z]{2} ?\d{1,2}")
_MINUTES_A_DAY = 24 * 60
_TITLE = re.compile(r"[A-Za-z][\w.+-]*::\S")
"""What engines call their processes: ``VLLM::EngineCore``, ``sglang::scheduler``, ``ray::Worker.run``."""
_COMMAND = re.compile(r"(?:/\S+/)?(?:python|pypy)[\d.]*(?: |\Z)|/\S")


def starts_differ(earlier: str, later: str) -> bool:
    """The starts that two tables of ps show cannot be of one process.

    ps computes them from the age each time, so the minute may differ by one. A start of the last day is shown as a
    time; a day later the same start is shown as a date, never the other way round.
    """
    one, other = _CLOCK.fullmatch(earlier), _CLOCK.fullmatch(later)
    if one is not None and other is not None:
        apart = abs(_minutes(one) - _minutes(other))
        return min(apart, _MINUTES_A_DAY - apart) > 1
    return one is None and other is not None and _DAY.fullmatch(earlier) is not None


def lost_its_title(earlier: str, later: str) -> bool:
    """An engine's title in an earlier look, a plain command line in a later one: no engine takes its title back."""
    return _TITLE.match(earlier) is not None and _COMMAND.match(later) is not None


def _minutes(time: re.Match[str]) -> int:
    return int(time[1]) * 60 + int(time[2])
