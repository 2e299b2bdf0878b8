"""What ran through sudo: its lines in the journal, in ``/var/log/auth.log``, in ``/var/log/secure``, or in the file of
its own that ``Defaults logfile`` names in most instructions.

sudo joins the words of a command by blanks and drops the quotes. Where only one reading makes sense they are put back:
all that stands behind ``sh -c`` is one script, all that stands behind the options of ``pkill`` is one pattern.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from datetime import datetime

from gpudiag.collect.issued import Issued
from gpudiag.kill_words import may_kill

FILES = ("/var/log/auth.log.1", "/var/log/auth.log", "/var/log/secure", "/var/log/sudo.log")
JOURNAL = ("journalctl", "-q", "--no-pager", "-b", "-n", "2000", "-o", "short-iso", "_COMM=sudo")
_LINE = re.compile(
    r"(?P<stamp>\d{4}-\d\d-\d\dT\S{8,24}|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"
    r"(?: \S{1,255} sudo(?:\[\d{1,10}\])?: {1,20}| : )"
    r"(?P<user>\S{1,64}) : (?P<fields>.*?)COMMAND=(?P<command>.*)\Z"
)
_RUN_AS = re.compile(r"\bUSER=(\S{1,64}) ;")
_REFUSED = re.compile(r"command not allowed|incorrect password|a password is required|NOT in sudoers|user NOT")
_SHELL = re.compile(
    r"((?:\S{0,200}/)?(?:ba|da|z|k|a)?sh)((?: -[a-zA-Z]{1,6}){0,4}) (-[a-zA-Z]{0,6}c) (.+)\Z", re.DOTALL
)
_PATTERN_TOOL = re.compile(r"(?:\S{0,200}/)?(?:pkill|pgrep)\Z")
_WITH_VALUE = frozenset(
    {"-u", "-U", "-g", "-G", "-P", "-s", "-t", "-F", "-r", "--signal", "--euid", "--uid", "--parent", "--session"}
)
_OCTAL = re.compile(r"#(\d{3})")
_ERROR_S = 1.0
_TEXT_CAP = 16384


def commands(lines: Iterable[str], now_s: float) -> Iterator[Issued]:
    """Commands that sudo ran and that may kill. ``now_s`` gives the year to stamps that have none."""
    for line in _unwrapped(lines):
        match = _LINE.match(line[:_TEXT_CAP])
        if match is None or _REFUSED.search(match["fields"]):
            continue
        text = match["command"].strip()
        words = _words(text)
        # An escaped script shows its commands only when it is unescaped.
        if not (may_kill(text) or may_kill(" ".join(words))) or "gpudiag" in text:
            continue
        run_as = _RUN_AS.search(match["fields"])
        seconds = _seconds(match["stamp"], now_s)
        yield Issued(
            text=text,
            source="sudo_log",
            time_s=seconds,
            error_s=None if seconds is None else _ERROR_S,
            user=run_as[1] if run_as else None,
            argv=words,
        )


def _unwrapped(lines: Iterable[str]) -> Iterator[str]:
    """sudo's own file wraps long lines between words and indents what follows by four blanks."""
    whole = ""
    for line in lines:
        if line.startswith("    ") and whole:
            whole = f"{whole} {line.strip()}"[:_TEXT_CAP]
            continue
        if whole:
            yield whole
        whole = line
    if whole:
        yield whole


def _words(text: str) -> tuple[str, ...]:
    """The argument vector that was probably given."""
    shell = _SHELL.match(text)
    if shell:
        script = shell[4]
        if re.search(r"\\[ ;|&$]", script) and not re.search(r"(?<!\\) ", script):
            script = re.sub(r"\\(.)", r"\1", script)  # sudo -s and sudo -i escape every odd character
        return (shell[1], *shell[2].split(), shell[3], _plain(script))
    words = text.split(" ")
    if not _PATTERN_TOOL.match(words[0]):
        return tuple(_plain(word) for word in words if word)
    position = 1
    while position < len(words) and words[position].startswith("-"):
        position += 2 if words[position] in _WITH_VALUE else 1
    pattern = " ".join(words[position:]).replace("\\ ", " ")
    return tuple(_plain(word) for word in (*words[:position], pattern) if word)


def _plain(text: str) -> str:
    """sudo writes control characters as ``#012``."""
    return _OCTAL.sub(
        lambda match: chr(int(match[1], 8)) if int(match[1][0]) < 1 and max(match[1]) < "8" else match[0], text
    )


def _seconds(stamp: str, now_s: float) -> float | None:
    try:
        if stamp[4] == "-":
            return iso_seconds(stamp)
        year = time.localtime(now_s).tm_year
        for candidate in (year, year - 1):
            found = time.mktime(time.strptime(f"{candidate} {stamp}", "%Y %b %d %H:%M:%S"))
            if found <= now_s + 86400:
                return found
    except (ValueError, OverflowError):
        return None
    return None


def iso_seconds(stamp: str) -> float | None:
    """An RFC 3339 time with its zone, in seconds since the epoch."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(Z|[+-]\d\d:?\d\d)\Z", stamp)
    if match is None:
        return None
    zone = "+00:00" if match[2] == "Z" else match[2][:3] + ":" + match[2][-2:]
    return datetime.fromisoformat(match[1] + zone).timestamp()
