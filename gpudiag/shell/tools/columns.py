"""Which column of a listing ends up in the kill: ``awk '{print $2}'``, ``cut -d' ' -f2``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudiag.shell.lines import Word

_BSD_USER = ("user", "pid", "cpu", "mem")
_FULL = ("user", "pid", "ppid")
_NAMES = {"cmd": "args", "command": "args", "ucmd": "comm", "tgid": "pid"}


def of_ps(arguments: Sequence[str]) -> tuple[str, ...] | None:
    """The columns of a ``ps``, as far as the first one that holds blanks; ``None`` if they are not known."""
    for position, word in enumerate(arguments):
        found = re.fullmatch(r"-?[A-Za-z]*o(?:=)?(.*)|--format=?(.*)", word)
        if found is None or word in ("-o=",):
            continue
        given = found[1] or found[2] or (arguments[position + 1] if position + 1 < len(arguments) else "")
        names = [name.partition("=")[0].partition(":")[0] for name in re.split(r"[, ]+", given)]
        return tuple(_NAMES.get(name, name) for name in names)
    letters = "".join(word.lstrip("-") for word in arguments if not word.startswith("--"))
    dashed = bool(arguments) and arguments[0].startswith("-")
    if not dashed or (set(letters) <= set("aux") and "u" in letters):
        return _BSD_USER if "u" in letters else (("pid",) if letters else None)
    if "f" in letters and not set(letters) & {"l", "j", "F"}:
        return _FULL
    return ("pid",) if letters and not set(letters) & set("ljFfyT") else None


def printed(words: Sequence[Word], *, squeezed: bool) -> int | None:
    """The one column, from 1, that an awk or cut prints; ``None`` if that is not known.

    ``squeezed``: each run of blanks has been made one, which cut needs and awk does not.
    """
    program = (words[0].text or "").rsplit("/", 1)[-1]
    if any(word.text is None for word in words):
        return None
    if program == "awk" and len(words) == 2:
        found = re.fullmatch(
            r"\s*(?:/(?:[^/\\]|\\.)*/)?\s*\{\s*print\s*\(?\s*\$(\d{1,2})\s*\)?\s*;?\s*\}\s*", words[1].text or ""
        )
        return int(found[1]) if found else None
    text = " ".join(word.text or "" for word in words[1:])
    found = re.fullmatch(r"(?:-d\s? |--delimiter= )\s*-f\s*(\d{1,2})", text)
    return int(found[1]) if found and program == "cut" and squeezed else None


def skips_header(words: Sequence[Word]) -> bool:
    """Drops the first line, or one without a number: ``tail -n +2``, ``sed 1d``, ``grep -v PID``, ``grep '[0-9]'``."""
    text = " ".join(word.text or "\0" for word in words)
    return bool(
        re.fullmatch(
            r"tail (?:-n ?)?\+2|sed (?:-e )?1d|awk NR ?(?:>|!=|>=2|> ?=) ?1?|grep (?:-i )?-v(?:i)? (?:-i )?(?:pid|PID)"
            r"|grep (?:-E |-o |-Eo |-oE )?\^?\[0-9\](?:\+|\*|\\\+)?|awk NR>1 ?\{ ?print \$1 ?\}",
            text,
        )
    )
