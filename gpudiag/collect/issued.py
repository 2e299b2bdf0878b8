"""Kill commands that somebody issued, as one record each in ``kill-commands.json``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

NEWEST = 200
"""Records that are kept, the newest ones."""
_SAME_S = 5.0
"""A command line and what a log says about it are one if they are no further apart."""
_LINE_S = 600.0
"""From the first to the last command of one line."""
_SAME_LINE_S = 0.05
_LINES = ("history", "stated")
"""What a person has typed, perhaps with several commands in it."""
_WRAPPER_VALUES = frozenset({"-u", "-g", "-h", "-p", "-C", "-r", "-t", "-D", "-R", "-T", "-U", "--user", "--group"})


class Issued(NamedTuple):
    """One command."""

    text: str
    source: str
    """``history``, ``sudo_log``, ``audit``, ``watch`` or ``stated``."""
    time_s: float | None = None
    """Since the epoch; ``None`` where the source has no time."""
    error_s: float | None = None
    """How far the time may be off."""
    user: str | None = None
    """As whom it began to run."""
    argv: tuple[str, ...] = ()
    """Where the source knows the words, or nearly; ``text`` is then not parsed."""
    ended_s: float | None = None
    exit_code: int | None = None
    """Negative: the signal that ended it."""

    def record(self) -> dict[str, object]:
        """As it is written."""
        words: dict[str, object] = {"argv": list(self.argv)} if self.argv else {"cmd": self.text}
        return {
            **words,
            "t0": None if self.time_s is None else _instant(self.time_s),
            "t1": None if self.ended_s is None else _instant(self.ended_s),
            "rc": self.exit_code,
            "user": self.user,
            "source": self.source,
            "time_error_s": None if self.time_s is None else self.error_s,
        }


def merged(commands: Iterable[Issued], since_s: float | None) -> list[Issued]:
    """All sources together, oldest first; those without a time before the others, stated ones behind them.

    What was issued before the machine started cannot have met a process of today. A line of history and an entry of
    sudo's log or of the audit trail that are about the same command become one: the line has the quotes, the entry the
    time. So do a line, typed or stated, and the commands of it that a flight recorder saw run.
    """
    kept = [item for item in commands if item.time_s is None or since_s is None or item.time_s >= since_s]
    seen = [item for item in kept if item.source == "watch"]
    lines, unexplained = _dated([item for item in kept if item.source in _LINES], seen)
    typed = [item for item in lines if item.source == "history"]
    stated = [item for item in lines if item.source == "stated"]
    noted = [item for item in kept if item.source not in (*_LINES, "watch")]
    logged = sorted((*noted, *unexplained, *stated), key=lambda item: -(item.time_s or 0.0))
    others: list[Issued] = []
    # The newest first: of lines without a time the last ones are about the last entries.
    typed.reverse()
    for item in logged:
        index = _same(item, typed)
        if index is None:
            if not any(_twice(item, other) for other in others):
                others.append(item)
            continue
        line = typed[index]
        typed[index] = line._replace(
            source=item.source,
            time_s=item.time_s,
            error_s=item.error_s,
            ended_s=item.ended_s,
            exit_code=item.exit_code,
        )
    typed.reverse()
    found = [item for item in (*typed, *others) if item.source != "stated"]
    timeless = [item for item in found if item.time_s is None]
    timed = sorted((item for item in found if item.time_s is not None), key=lambda item: item.time_s or 0.0)
    return [*[*timeless, *timed][-NEWEST:], *(item for item in others if item.source == "stated")]


def _same(entry: Issued, typed: Sequence[Issued]) -> int | None:
    """Position of the line that the entry is about."""
    if entry.source == "stated" or entry.time_s is None:
        return None
    for position, line in enumerate(typed):
        if line.source != "history":
            continue  # an earlier entry has taken it
        if line.time_s is not None and abs(line.time_s - entry.time_s) > _SAME_S:
            continue
        if _bare(line.text) == _bare(shlex.join(entry.argv) if entry.argv else entry.text):
            return position
    return None


def _dated(lines: Sequence[Issued], seen: Sequence[Issued]) -> tuple[list[Issued], list[Issued]]:
    """Typed and stated lines with the time at which a flight recorder saw their commands run, the newest lines first;
    and what it saw besides. A line stays one that was typed: the shell that read it does not carry its text.
    """
    dated, rest = list(lines), list(seen)
    for position in range(len(dated) - 1, -1, -1):
        line = dated[position]
        words = _tokens(line.text)
        own = [item for item in rest if _stands_in(item.argv, words) and _near(line, item)]
        if not own:
            continue
        last = max(item.time_s or 0.0 for item in own)
        run = [item for item in own if last - (item.time_s or 0.0) <= _LINE_S]
        first = min(run, key=lambda item: item.time_s or 0.0)
        whole = _bare(line.text) == _bare(_text(first))
        dated[position] = line._replace(
            time_s=first.time_s,
            # The shell reads a line before it runs the first command of it.
            error_s=max(_SAME_LINE_S, first.error_s or 0.0),
            ended_s=first.ended_s if whole else None,
            exit_code=first.exit_code if whole else None,
        )
        rest = [item for item in rest if item not in run]
    return dated, rest


def _near(line: Issued, item: Issued) -> bool:
    return line.time_s is None or item.time_s is None or -_SAME_S <= item.time_s - line.time_s <= _LINE_S


def _tokens(text: str) -> list[str]:
    try:
        return list(shlex.shlex(text[:4096], posix=True, punctuation_chars=True))
    except ValueError:
        return text[:4096].split()


def _stands_in(argv: Sequence[str], words: Sequence[str]) -> bool:
    """The line has this command in it; what the shell has put in place of a pattern or a variable may be anything."""
    wanted = [argv[0].rpartition("/")[2], *argv[1:]] if argv else []
    for place, word in enumerate(words):
        if not wanted or word.rpartition("/")[2] != wanted[0]:
            continue
        for own, other in zip(words[place + 1 :], wanted[1:]):
            if any(letter in own for letter in "*?[$`"):
                return True
            if own != other:
                break
        else:
            if len(words) - place >= len(wanted) and _ends(words[place + len(wanted) :]):
                return True
    return False


def _ends(words: Sequence[str]) -> bool:
    """What follows is no further argument: nothing, an operator, or a redirection."""
    rest = [word for word in words[:2] if not word.isdecimal()]
    return not words or (bool(rest) and rest[0][:1] in "();<>|&")


def _twice(item: Issued, other: Issued) -> bool:
    """Both the audit trail and sudo's log have it."""
    if item.time_s is None or other.time_s is None or item.source == other.source:
        return False
    return abs(item.time_s - other.time_s) <= _SAME_S and _bare(_text(item)) == _bare(_text(other))


def _text(item: Issued) -> str:
    return shlex.join(item.argv) if item.argv else item.text


def _bare(text: str) -> tuple[str, ...]:
    """The words without ``sudo`` and its options, the folder of the program, and quotes."""
    try:
        words = shlex.split(text[:4096])
    except ValueError:
        words = text[:4096].split()
    while words and words[0].rpartition("/")[2] in ("sudo", "doas"):
        words = words[1:]
        while words and words[0].startswith("-"):
            words = words[2:] if words[0] in _WRAPPER_VALUES else words[1:]
    if not words:
        return ()
    return tuple(" ".join([words[0].rpartition("/")[2], *words[1:]]).split())


def _instant(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
    except (ValueError, OverflowError, OSError):
        return None
