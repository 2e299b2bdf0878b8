"""The audit trail's record of programs that were started, where auditd was told to keep one. It has the exact words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from gpudiag.collect.issued import Issued
from gpudiag.kill_words import may_kill

COMMAND = ("ausearch", "--input-logs", "-m", "EXECVE", "-ts", "boot", "--raw")
"""Raw, because the interpreted form has local times and loses the borders between words."""
_HEAD = re.compile(
    r"(?:node=\S{1,255} )?type=(?P<type>[A-Z_]{1,32}) msg=audit\((?P<time>\d{9,11}\.\d{3}):(?P<id>\d{1,20})\): ?"
)
_WORD = re.compile(r"\ba(?P<number>\d{1,4})=(?:\"(?P<plain>[^\"]{0,8192})\"|(?P<hex>[0-9A-F]{2,16384})\b)")
_UID = re.compile(r"\beuid=(\d{1,10})\b")
_FAILED = re.compile(r"\bsuccess=no\b")
_WORDS_CAP = 500
_LINE_CAP = 65536
_ERROR_S = 0.01


def commands(lines: Iterable[str], names: Mapping[int, str]) -> Iterator[Issued]:
    """Programs that may kill. ``names``: user names by UID."""
    user: str | None = None
    event, failed = "", False
    for line in lines:
        head = _HEAD.match(line)
        if head is None:
            continue
        if head["id"] != event:
            event, user, failed = head["id"], None, False
        if head["type"] == "SYSCALL":
            uid = _UID.search(line[:_LINE_CAP], head.end())
            user = names.get(int(uid[1]), uid[1]) if uid else None
            failed = bool(_FAILED.search(line[:_LINE_CAP]))
        elif head["type"] == "EXECVE" and not failed:
            words = _words(line[head.end() : _LINE_CAP])
            text = shlex.join(words)
            # The shell or sudo that carries the command has a record of its own, and the tool's is the exact one.
            carried = bool(words) and words[0].rpartition("/")[2] in ("sudo", "su", "runuser", "doas")
            if words and not carried and may_kill(text) and "gpudiag" not in text:
                yield Issued(text, "audit", float(head["time"]), _ERROR_S, user, words)


def _words(text: str) -> tuple[str, ...]:
    found: dict[int, str] = {}
    for match in _WORD.finditer(text):
        number = int(match["number"])
        if number < _WORDS_CAP:
            found[number] = match["plain"] if match["plain"] is not None else _unhexed(match["hex"])
    if sorted(found) != list(range(len(found))):
        return ()  # a word is missing or in pieces: not the command that ran
    return tuple(found[number] for number in range(len(found)))


def _unhexed(text: str) -> str:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace")
    except ValueError:
        return text
