"""The front of a log line: who wrapped it (docker, journald, kubelet, compose), when, and which process wrote it.

Most servers print local time without a zone, many without a year. Such a stamp is kept as printed; ``resolve`` turns it
into an instant with an error that covers every zone, and picks the year by the time of the other evidence.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from gpudiag.evidence.header import stamp_ns
from gpudiag.parse.jsontext import mapping

SECOND_NS = 1_000_000_000
ZONE_ERROR_NS = 14 * 3600 * SECOND_NS
"""The farthest that a clock without a zone can be from UTC."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "(?:" + "|".join(_MONTHS) + ")"

_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_ISO_T = _ISO.replace("[T ]", "T")
"""As containers and the journal print it. With a space, the next words would be taken for host and program."""
_ZONE = r"(?:Z| ?[+-][0-9]{2}:?[0-9]{2})"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
_UNIT = r"[^ ]{1,64} (?P<unit>[^ :\[]{1,64})(?:\[[0-9]{1,7}\])?: "
"""Host, program and PID as the journal and syslog print them. The PID is whoever owns the stream, not the writer."""

# The same wrappers in front of a role's tag, in syntax that Python and Rust read alike.
WRAPPED = (
    r'(?:\{"log":"(?:\\u001b\[[0-9;]{0,12}m){0,4}'
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]{8,20}(?:Z|[+-][0-9]{2}:?[0-9]{2}) "
    r"(?:std(?:out|err) [FP] |[^ ]{1,64} [^ :]{1,80}: )?"
    rf"|{_MONTH} [ 0-9][0-9] [0-9:.]{{8,18}} [^ ]{{1,64}} [^ :]{{1,80}}: "
    r"|[A-Za-z0-9_.-]{1,64} {1,40}\| )?"
)

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|\x1b\([A-Z0-9]|\r")
_DOCKER = re.compile(r'\s*\{.{0,200}"(?:log|time)":')
_WRAPPERS = (
    re.compile(r"[A-Za-z0-9_.-]{1,64} {1,40}\| "),
    re.compile(rf"(?P<stamp>{_ISO_T}{_ZONE}) std(?:out|err) [FP] "),
    re.compile(rf"(?P<stamp>{_ISO_T}{_ZONE}?) {_UNIT}"),
    re.compile(rf"(?P<stamp>{_MONTH} [ 0-9][0-9] {_CLOCK}) {_UNIT}"),
    re.compile(r"kern {1,4}:[a-z]{1,6} {1,4}: "),
    re.compile(r"<[0-9]{1,3}>"),
    re.compile(r"\[ {0,12}(?P<boot>[0-9]{1,10}\.[0-9]{3,9})\] "),
    re.compile(rf"\[(?P<stamp>[A-Z][a-z]{{2}} {_MONTH} [ 0-9][0-9] [0-9:]{{8}} [0-9]{{4}})\] "),
    re.compile(rf"\[(?P<stamp>{_MONTH} ?[0-9]{{1,2}} [0-9]{{2}}:[0-9]{{2}})\] "),
    re.compile(r"\[ {1,4}\+ {0,9}[0-9]{1,9}\.[0-9]{1,9}\] {1,2}"),
    re.compile(rf"(?P<stamp>{_ISO}{_ZONE}) "),
)
_OWN = (
    re.compile(
        r"\((?P<role>[A-Za-z][A-Za-z0-9_.:-]{0,63}(?: rank=[0-9]{1,6})?) pid=(?P<pid>[0-9]{1,7})"
        r"\) ?"
    ),
    re.compile(r"\([A-Za-z][A-Za-z0-9_.:-]{0,63} pid=[0-9]{1,7}, ip=[^)]{1,45}\) ?"),
    re.compile(rf"[A-Z]{{4,8}} (?P<stamp>[0-9]{{2}}-[0-9]{{2}} {_CLOCK}) "),
    re.compile(rf"\[?[EWIF](?P<stamp>[0-9]{{4}} {_CLOCK}) {{1,8}}(?P<pid>[0-9]{{1,7}}) "),
    re.compile(
        rf"\[(?P<stamp>{_ISO}) [IWEFDC] (?P<pid>[0-9]{{1,7}}) [0-9]{{1,7}}\] (?:\((?P<role>[a-z_]{{1,32}})\) )?"
    ),
    re.compile(rf"\[(?P<stamp>{_ISO} ?{_ZONE}?)\] \[(?P<pid>[0-9]{{1,7}})\] "),
    re.compile(rf"\[(?:[IWECD] )?(?P<stamp>{_ISO})(?P<role>(?: [A-Z]{{2}}[0-9]{{1,4}}){{1,6}})?[^\]]{{0,64}}\] "),
    re.compile(rf"(?P<stamp>{_ISO}{_ZONE}?)[ \t]"),
)


@dataclass(frozen=True)
class LogLine:
    """One line without its wrapping."""

    body: str
    """The message, without terminal escapes."""
    stamp: str | None
    """When, as printed; of several the first with a zone, else the first."""
    boot_s: float | None
    """Kernel lines: seconds since boot."""
    unit: str | None
    """Program that the journal or syslog names: ``kernel``."""
    pid: int | None
    """The process that wrote the line, if it says so."""
    role: str | None


def unwrap(line: str) -> LogLine:
    """Take the front off."""
    body = _ANSI.sub("", line)
    stamps: list[str] = []
    if _DOCKER.match(body):
        body = _from_docker(body, stamps)
    found: dict[str, str] = {}
    for pattern in (*_WRAPPERS, *_OWN):
        match = pattern.match(body)
        if match is None:
            continue
        for name, value in match.groupdict().items():
            if value and name == "stamp":
                stamps.append(value)
            elif value:
                found.setdefault(name, value.strip())
        body = body[match.end() :]
    boot = found.get("boot")
    return LogLine(
        body=body,
        stamp=next((stamp for stamp in stamps if _zoned(stamp)), stamps[0] if stamps else None),
        boot_s=float(boot) if boot is not None else None,
        unit=found.get("unit"),
        pid=int(found["pid"]) if "pid" in found else None,
        role=found.get("role"),
    )


def _from_docker(body: str, stamps: list[str]) -> str:
    """The message of one line of docker's JSON log files."""
    try:
        record = mapping(json.loads(body))
    except (ValueError, RecursionError):
        return body
    log, time = record.get("log"), record.get("time")
    if isinstance(time, str):
        stamps.append(time)
    return _ANSI.sub("", log).rstrip("\n") if isinstance(log, str) else body


def _zoned(stamp: str) -> bool:
    found = stamp_ns(stamp)
    return found is not None and found[1]


def resolve(stamp: str | None, near_ns: int | None) -> tuple[int, int] | None:
    """Instant and error of a printed stamp; ``None`` if it has no year and nothing tells which one is meant.

    ``near_ns`` is the time of the newest evidence beside it: a log does not speak of the time after it was read.
    """
    if stamp is None:
        return None
    relative = _RELATIVE.fullmatch(stamp)
    if relative is not None:
        found = resolve(relative["anchor"], near_ns)
        return (
            None
            if found is None
            else (found[0] + int(float(relative["passed"]) * SECOND_NS), found[1] + 60 * SECOND_NS)
        )
    precision = SECOND_NS // 1000 if re.search(r":[0-9]{2}[.,][0-9]", stamp) else SECOND_NS
    found = stamp_ns(stamp)
    if found is not None:
        return found[0], precision if found[1] else ZONE_ERROR_NS
    parts = _parts(stamp)
    if parts is None:
        return None
    year, month, day, clock = parts
    if len(clock) == 5:
        clock += ":00"
    if year is not None:
        moment = _instant(year, month, day, clock)
    elif near_ns is None:
        return None
    else:
        around = datetime.fromtimestamp(near_ns // SECOND_NS, UTC).year
        moments = (_instant(around + step, month, day, clock) for step in (1, 0, -1))
        moment = next((at for at in moments if at is not None and at <= near_ns + ZONE_ERROR_NS), None)
    return None if moment is None else (moment, ZONE_ERROR_NS)


_RELATIVE = re.compile(r"(?P<anchor>[^+]{1,40}) \+(?P<passed>[0-9]{1,2}\.[0-9]{6}) s")
"""A minute as the kernel log prints it, and the seconds from a line somewhere in this minute."""
_NAMED = re.compile(
    rf"(?:[A-Z][a-z]{{2}} )?(?P<name>{_MONTH}) ?(?P<day>[ 0-9]?[0-9]) (?P<clock>[0-9:.]+)(?: (?P<year>[0-9]{{4}}))?"
)
_NUMBERED = re.compile(r"(?P<month>[0-9]{2})-?(?P<day>[0-9]{2}) (?P<clock>[0-9:.]+)")


def _parts(stamp: str) -> tuple[int | None, int, int, str] | None:
    match = _NAMED.fullmatch(stamp)
    if match:
        year = int(match["year"]) if match["year"] else None
        return year, _MONTHS.index(match["name"]) + 1, int(match["day"]), match["clock"]
    match = _NUMBERED.fullmatch(stamp)
    return (None, int(match["month"]), int(match["day"]), match["clock"]) if match else None


def _instant(year: int, month: int, day: int, clock: str) -> int | None:
    found = stamp_ns(f"{year:04}-{month:02}-{day:02} {clock}")
    return None if found is None else found[0]
