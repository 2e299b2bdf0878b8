"""What the kill tools themselves print about the processes that they were to signal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

_NOT_PERMITTED = {
    "pkill": re.compile(r"killing pid (\d{1,10}) failed: Operation not permitted"),
    "kill": re.compile(r"kill: (?:sending signal to )?\(?(\d{1,10})\)?[^\n]{0,20}Operation not permitted"),
    "killall": re.compile(r"\((\d{1,10})\): Operation not permitted"),
    "fuser": re.compile(r"Could not kill process (\d{1,10}): Operation not permitted"),
}
"""What each tool prints for EPERM."""
_NO_SUCH = re.compile(
    r"kill:(?:\d{1,6}:)? (?:sending signal to |kill )?\(?(\d{1,10})\)?[^\n]{0,20}[Nn]o such process"
    r"|kill: (No) such process"
)
"""What bash, zsh, procps and util-linux print for ESRCH; dash names no number."""
_FAILED = {
    "kill": re.compile(
        r"kill: \((\d{1,10})\) ?[-:] ?\S"  # bash, procps
        r"|kill:(?:\d{1,6}:)? kill (\d{1,10}) failed: "  # zsh
        r"|kill: sending signal to (\d{1,10}) failed: "  # util-linux
    ),
    "pkill": re.compile(r"pkill: [^\n]{0,40}?\b(\d{1,10})\b[^\n]{0,40}: \S"),
    "killall": re.compile(r"\((\d{1,10})\): \S"),
    "fuser": re.compile(r"Could not kill process (\d{1,10}): "),
}
"""Each prints a line about a PID only where the signal did not go through, the reason in the user's language."""
_FUSER_LINE = re.compile(r"(?P<name>[^\s:][^\n:]{0,200}):(?P<pids>(?:[ \t]{1,40}\d{1,10}[a-zA-Z]{0,6}){1,10000})[ \t]*")
_NUMBER = re.compile(r"\d{1,10}")
_MAX_MESSAGES = 10_000


def _numbers(pattern: re.Pattern[str], output: str) -> Iterator[int]:
    for found in islice(pattern.finditer(output), _MAX_MESSAGES):
        yield int(next(group for group in found.groups() if group is not None))


def not_permitted(output: str) -> Mapping[str, frozenset[int]]:
    """PIDs that a tool picked and may not signal, by tool."""
    return {tool: frozenset(_numbers(pattern, output)) for tool, pattern in _NOT_PERMITTED.items()}


def no_such_process(output: str, given: Sequence[int]) -> list[int]:
    """PIDs of which a ``kill`` said that there is no such process, once for each message.

    ``given``: the PIDs that it was given; dash's message can only be of the one where there is one.
    """
    found = (match[1] or match[2] for match in islice(_NO_SUCH.finditer(output), _MAX_MESSAGES))
    return [int(word) if word.isdecimal() else given[0] for word in found if word.isdecimal() or len(set(given)) == 1]


def failed(tool: str | None, output: str) -> frozenset[int]:
    """PIDs that a tool did not signal, for whatever reason, in whatever language it was said."""
    pattern = _FAILED.get(tool or "")
    return frozenset(_numbers(pattern, output)) if pattern is not None else frozenset()


def listed_by_fuser(output: str, is_asked_for: Callable[[str], bool]) -> frozenset[int]:
    """PIDs that ``fuser`` printed behind one of the files or ports that it was asked for: they have it open."""
    found = islice((_FUSER_LINE.fullmatch(line) for line in output.splitlines()), _MAX_MESSAGES)
    lists = [match["pids"] for match in found if match is not None and is_asked_for(match["name"].strip())]
    return frozenset(int(pid) for pids in lists for pid in re.findall(r"\d+", pids))


def numbers(output: str) -> frozenset[int]:
    """Every number in an output: whoever is not among them was not printed."""
    return frozenset(int(found[0]) for found in islice(_NUMBER.finditer(output), _MAX_MESSAGES))
