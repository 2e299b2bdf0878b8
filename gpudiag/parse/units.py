"""``systemctl status``, ``systemctl show`` and ``systemctl is-active``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpudiag.model import Process, Unit
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of

_HEAD = re.compile(r"[●○×↻*] (?P<name>[\w@:.\\-]{1,250}\.(?:service|scope|slice|socket|timer|target))(?: - .*)?\Z")
_ACTIVE = re.compile(r"\s+Active: (?P<active>[a-z-]{1,20})(?: \((?P<sub>[\w:. -]{1,60})\))?")
_MAIN = re.compile(r"\s+Main PID: (\d{1,10})\b")
_GROUP = re.compile(r"\s+CGroup: (/\S{1,400})")
_MEMBER = re.compile(r"\s+[│ ]{0,100}[├└`|][─-]\s?(?P<pid>\d{1,10}) (?P<line>\S.*?)\s*\Z")
_PROPERTY = re.compile(r"(?P<key>[A-Z][A-Za-z]{1,60})=(?P<value>.*)\Z")
_STATES = frozenset({"active", "inactive", "failed", "activating", "deactivating", "reloading", "maintenance"})
_WITH_VALUE = frozenset({"-p", "--property", "-t", "--type", "-n", "--lines", "-o", "--output", "-H", "-M"})


def _names(shown: Shown | None, verb: str) -> Sequence[str]:
    """The units that a command line names behind its verb."""
    found: list[str] = []
    skip = behind = False
    for word in shown.argv[1:] if shown is not None else ():
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in _WITH_VALUE
        elif behind:
            found.append(word)
        elif word == verb:
            behind = True
    return found


def status_rows(segment: Segment) -> Iterator[Row]:
    """One unit a head line; a process for each line of its control group."""
    unit: Unit | None = None
    group: str | None = None
    for offset, line in enumerate(segment.lines):
        if head := _HEAD.match(line):
            if unit is not None:
                yield unit
            unit, group = Unit(segment.place, segment.cite(offset), head["name"]), None
        elif unit is None:
            continue
        elif active := _ACTIVE.match(line):
            unit = replace(unit, active=active["active"], sub=active["sub"])
        elif main := _MAIN.match(line):
            unit = replace(unit, main_pid=pid_of(main[1]))
        elif found := _GROUP.match(line):
            group = found[1]
        elif (member := _MEMBER.match(line)) and (pid := pid_of(member["pid"])) is not None:
            unit = replace(unit, pids=(*unit.pids, pid))
            yield Process(
                at=segment.place,
                pid=pid,
                cited=segment.cite(offset),
                text_from="ps",
                cmdline=member["line"],
                # It shortens to the terminal's width, in the middle and at the end.
                cmdline_cut="…" in member["line"] or "..." in member["line"] or len(line) >= 79,
                cgroup=group,
            )
    if unit is not None:
        yield unit
    yield segment.coverage("units", complete=False)


def show_rows(segment: Segment) -> Iterator[Row]:
    """One unit a block of properties; blank lines part the units."""
    names = list(_names(segment.shown, "show"))
    blocks: list[dict[str, str]] = [{}]
    starts = [0]
    for offset, line in enumerate(segment.lines):
        match = _PROPERTY.match(line)
        if match:
            blocks[-1].setdefault(match["key"], match["value"])
        elif blocks[-1]:
            blocks.append({})
            starts.append(min(offset + 1, len(segment.lines) - 1))
    for number, (start, block) in enumerate(zip(starts, blocks, strict=True)):
        if block:
            named = block.get("Id") or (names[number] if number < len(names) else None)
            yield Unit(
                at=segment.place,
                cited=segment.cite(start),
                name=named,
                active=block.get("ActiveState"),
                sub=block.get("SubState"),
                main_pid=pid_of(block.get("MainPID", "")),
                restart=block.get("Restart"),
            )
    yield segment.coverage("units", complete=False)


def active_rows(segment: Segment) -> Iterator[Row]:
    """One state a line, in the order of the names."""
    names = _names(segment.shown, "is-active")
    states = [(offset, line.strip()) for offset, line in enumerate(segment.lines) if line.strip() in _STATES]
    for number, (offset, state) in enumerate(states):
        named = names[number] if len(names) == len(states) else None
        yield Unit(segment.place, segment.cite(offset), named, active=state)
    yield segment.coverage("units", complete=False)


def _verb(shown: Shown, verb: str) -> bool:
    return shown.tool == "systemctl" and verb in shown.argv


STATUS = Listing(
    rows=status_rows,
    begins=lambda line: bool(_HEAD.match(line)),
    continues=lambda line: bool(_HEAD.match(line)) or line.startswith("  ") or not line.strip(),
    printed_by=lambda shown: _verb(shown, "status"),
)
SHOW = Listing(
    rows=show_rows,
    continues=lambda line: bool(_PROPERTY.match(line)) or not line.strip(),
    printed_by=lambda shown: _verb(shown, "show"),
    headless=lambda shown, line: _verb(shown, "show") and bool(_PROPERTY.match(line)),
)
IS_ACTIVE = Listing(
    rows=active_rows,
    continues=lambda line: line.strip() in _STATES,
    printed_by=lambda shown: _verb(shown, "is-active"),
    headless=lambda shown, line: _verb(shown, "is-active") and line.strip() in _STATES,
)
