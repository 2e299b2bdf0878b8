"""Shell history: the lines that kill, stop or restart something, with their times where the shell has kept them.

bash writes its history when it ends, so what was typed in the shell that is still open is in nobody's file: the person
pipes it in. zsh and fish write at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from gpudiag.collect.issued import Issued
from gpudiag.collect.tails import TAIL, tail
from gpudiag.kill_words import may_kill

HINT = "bash keeps the history of an open shell to itself; to add it: history | {sudo}gpudiag collect --history -"
"""What a person has to know where no kill command was found."""
_FILES = (
    (".bash_history", "bash"),
    (".zsh_history", "zsh"),
    (".zhistory", "zsh"),
    (".histfile", "zsh"),
    (".local/share/fish/fish_history", "fish"),
)
_ERROR_S = 1.0
"""Shells write whole seconds."""
_BASH_TIME = re.compile(r"#(\d{9,11})\s*\Z")
_ZSH_LINE = re.compile(r": {0,3}(\d{9,11}):\d{1,9};(.*)\Z", re.DOTALL)
_FISH_COMMAND = re.compile(r"- cmd: (.*)\Z")
_FISH_TIME = re.compile(r" {1,4}when: (\d{9,11})\s*\Z")
_NUMBERED = re.compile(r" {0,12}\d{1,9}\*?[ \t]{1,4}(.*)\Z")
_DATED = re.compile(r"\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?: ?(Z|UTC|[+-]\d\d:?\d\d))?\]?[ \t:]{1,4}(?=\S)")
_OTHER_DATE = re.compile(
    r"\[?[\w ,./-]{4,24}? \d\d?:\d\d:\d\d(?: [AP]M)?(?: \d{4})?(?: [A-Z]{3,5})?\]?[ \t]{1,4}(?=\S)"
)
_EPOCH = re.compile(r"(\d{10})[ \t]{1,4}(?=\S)")
_HERE = re.compile(r"<<-?\s{0,3}['\"\\]?(\w{1,60})")
_CLOSED_QUOTE = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_BLOCKS = (("do", "done"), ("if", "fi"), ("case", "esac"), ("{", "}"), ("(", ")"))
_TEXT_CAP = 16384
"""Characters of one command."""
_LINES_OF_ONE = 200
_USERS_CAP = 200


class Home(NamedTuple):
    """A user whose history may be read."""

    user: str
    folder: str
    own: bool
    """It is the one who collects, or who called sudo for it."""


def homes(passwd: str, uid: int, sudo_user: str | None, home: str | None = None) -> list[Home]:
    """Of whom history is read: oneself and, where that was sudo, the one who called it; as root everybody.

    ``home``: the environment's, where a shell that was started with it keeps its history; in a container it is often
    not the one of ``passwd``.
    """
    found: list[Home] = []
    for line in passwd.split("\n"):
        fields = line.split(":")
        if len(fields) < 7 or not fields[2].isdecimal() or not fields[5].startswith("/"):
            continue
        own = int(fields[2]) == uid or fields[0] == sudo_user
        if (own or uid == 0) and len(found) < _USERS_CAP:
            found.append(Home(fields[0], fields[5].rstrip("/"), own))
    if home is not None and home.startswith("/") and home.rstrip("/") not in {known.folder for known in found}:
        own_name = next((known.user for known in found if known.own), str(uid))
        found.append(Home(own_name, home.rstrip("/"), own=True))
    return sorted(found, key=lambda home: not home.own)


def of_homes(found: Iterable[Home], extra: str | None = None, problems: list[str] | None = None) -> Iterator[Issued]:
    """What lies in these folders, and in the file that ``HISTFILE`` names; ``problems`` gets what cannot be read."""
    seen: set[str] = set()
    for home in found:
        files = [(f"{home.folder}/{name}", shell) for name, shell in _FILES]
        if home.own and extra is not None and extra.startswith("/"):
            files.append((extra, "zsh" if "zsh" in extra or extra.endswith(("zhistory", "histfile")) else "bash"))
        for path, shell in files:
            if path in seen or not os.path.lexists(path):
                continue
            seen.add(path)
            try:
                # Another user could make root read a link to anything.
                lines, cut = tail(path, TAIL, follow=home.own)
            except OSError as error:
                if problems is not None:
                    problems.append(f"{path}: {error.strerror or error}")
                continue
            yield from of_lines(lines, shell, home.user, cut=cut)


def of_lines(lines: Sequence[bytes], shell: str, user: str | None, *, cut: bool = False) -> Iterator[Issued]:
    """The lines of one file. ``cut``: its beginning is missing."""
    if shell == "zsh":
        commands = _zsh([_unmetafied(line).decode("utf-8", "replace") for line in lines])
    else:
        texts = [line.decode("utf-8", "replace") for line in lines]
        commands = _fish(texts) if shell == "fish" else _bash(texts, cut)
    for text, seconds in commands:
        yield from _kept(text, seconds, user, _ERROR_S)


def of_pipe(lines: Iterable[str], user: str | None) -> Iterator[Issued]:
    """What ``history`` (bash) or ``fc -li 1`` (zsh) prints; a plain list of commands is good, too."""
    pending: list[str] = []
    numbered = False
    for line in lines:
        match = _NUMBERED.match(line[:_TEXT_CAP])
        numbered = numbered or match is not None
        if numbered and match is None:
            if pending and len(pending) < _LINES_OF_ONE:
                pending.append(line)
            continue
        yield from _piped(pending, user)
        pending = [line if match is None else match[1]]
    yield from _piped(pending, user)


def _piped(lines: Sequence[str], user: str | None) -> Iterator[Issued]:
    text, seconds, error_s = _dated("\n".join(lines)[:_TEXT_CAP])
    yield from _kept(text, seconds, user, error_s)


def _dated(text: str) -> tuple[str, float | None, float]:
    """The command behind the time that ``HISTTIMEFORMAT`` puts in front of it."""
    match = _DATED.match(text)
    if match:
        return text[match.end() :], *_moment(match[1], match[2], match[3])
    match = _EPOCH.match(text)
    if match:
        return text[match.end() :], float(match[1]), _ERROR_S
    match = _OTHER_DATE.match(text)
    # Day and month may stand in either order, so the time is not told from such a date.
    return (text[match.end() :] if match else text), None, _ERROR_S


def _moment(date: str, clock: str, zone: str | None) -> tuple[float | None, float]:
    error_s = _ERROR_S if len(clock) == 8 else 60.0
    offset = "" if zone is None else "+00:00" if zone in ("Z", "UTC") else zone[:3] + ":" + zone[-2:]
    try:
        moment = datetime.fromisoformat(f"{date}T{clock if len(clock) == 8 else clock + ':00'}{offset}")
        # Without a zone it is the shell's own, which is this machine's.
        return (moment if moment.tzinfo else moment.astimezone(timezone.utc)).timestamp(), error_s
    except (ValueError, OverflowError):
        return None, error_s


def _kept(text: str, seconds: float | None, user: str | None, error_s: float) -> Iterator[Issued]:
    text = text[:_TEXT_CAP].strip()
    # The collector itself is in history as well: `gpudiag collect --kill 'pkill …'` kills nothing.
    if may_kill(text) and "gpudiag" not in text:
        yield Issued(text, "history", seconds, error_s if seconds is not None else None, user)


def _bash(lines: Sequence[str], cut: bool) -> Iterator[tuple[str, float | None]]:
    """With ``HISTTIMEFORMAT`` a time stands above each command, which may have several lines."""
    seconds: float | None = None
    pending: list[str] = []
    for number, line in enumerate(lines):
        match = _BASH_TIME.match(line)
        if match:
            yield from _joined(pending, seconds)
            seconds, pending = float(match[1]), []
        elif seconds is None:
            if number or not cut:
                yield line, None
        elif pending and not _open("\n".join(pending)):
            # A shell without times has written on: this is another command, and nobody knows from when.
            yield from _joined(pending, seconds)
            seconds, pending = None, []
            yield line, None
        elif len(pending) < _LINES_OF_ONE:
            pending.append(line)
    yield from _joined(pending, seconds)


def _open(text: str) -> bool:
    """A shell would wait for more after this: a quote, a block, a pipe or a here-document is not closed."""
    text = text[:_TEXT_CAP]
    here = _HERE.search(text)
    if here is not None and not re.search(rf"^\t*{here[1]}$", text[here.end() :], re.MULTILINE):
        return True
    bare = _CLOSED_QUOTE.sub("x", text)
    if "'" in bare or '"' in bare or bare.rstrip(" \t").endswith(("\\", "|", "&&")):
        return True
    words = re.findall(r"[{}()]|\b(?:do|done|if|fi|case|esac)\b", bare)
    return any(words.count(opens) > words.count(closes) for opens, closes in _BLOCKS)


def _joined(lines: Sequence[str], seconds: float | None) -> Iterator[tuple[str, float | None]]:
    if lines:
        yield "\n".join(lines), seconds


def _zsh(lines: Sequence[str]) -> Iterator[tuple[str, float | None]]:
    """``: <start>:<seconds>;command``, or the bare command; a line break in it has a backslash in front."""
    pending: list[str] = []
    for line in lines:
        goes_on = line.endswith("\\") and len(pending) < _LINES_OF_ONE
        pending.append(line[:-1] if goes_on else line)
        if goes_on:
            continue
        text = "\n".join(pending)
        match = _ZSH_LINE.match(text)
        yield (match[2], float(match[1])) if match else (text, None)
        pending = []


def _unmetafied(line: bytes) -> bytes:
    """zsh writes bytes that it uses itself as 0x83 and the byte with one bit turned."""
    if b"\x83" not in line:
        return line
    result = bytearray()
    turned = False
    for byte in line:
        if turned:
            result.append(byte ^ 32)
            turned = False
        elif byte == 0x83:
            turned = True
        else:
            result.append(byte)
    return bytes(result)


def _fish(lines: Sequence[str]) -> Iterator[tuple[str, float | None]]:
    text: str | None = None
    for line in lines:
        command, when = _FISH_COMMAND.match(line), _FISH_TIME.match(line)
        if command:
            if text is not None:
                yield text, None
            text = re.sub(r"\\(\\|n)", lambda match: "\n" if match[1] == "n" else "\\", command[1])
        elif when and text is not None:
            yield text, float(when[1])
            text = None
    if text is not None:
        yield text, None
