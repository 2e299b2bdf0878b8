"""Lists of PIDs that come from files: ``kill $(cat server.pid)``, also in a loop over several files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from gpudiag.model import KillAction, PidFile

_CAT = re.compile(r"\bcat\s{1,8}(?P<word>\"?[^\s\"'();|&`<>]{1,300}\"?)(?=\s*[)`|]|\s*\Z)")
_REDIRECTED = re.compile(r"<\s{0,8}(?P<word>\"?[^\s\"'();|&`<>]{1,300}\"?)(?=\s*[)`])")
_LOOP = re.compile(r"\bfor\s{1,8}(?P<name>\w{1,60})\s{1,8}in\s{1,8}(?P<words>[^;\n]{1,2000}?)\s{0,8}[;\n]")
_TEXT_CAP = 65536
_FILES_CAP = 1000


def pid_lists(action: KillAction, files: Sequence[PidFile]) -> Mapping[str, frozenset[int]]:
    """PIDs by the text of the command that printed them, as the shell stage writes it (``cat server.pid``).

    ``files``: what was printed of PID files before the command, oldest first. A file of which nothing is known leaves
    the list unknown.
    """
    text = action.text[:_TEXT_CAP]
    held = {file.path: file.pid for file in files[-_FILES_CAP:]}
    if not held:
        return {}
    loops = {match["name"]: match["words"].split() for match in _LOOP.finditer(text)}
    found: dict[str, frozenset[int]] = {}
    for pattern in (_CAT, _REDIRECTED):
        for match in pattern.finditer(text):
            pids = frozenset(_pids(match["word"].strip('"'), loops, held))
            if pids:
                found[match[0].strip()] = pids
    return found


def _pids(word: str, loops: Mapping[str, Sequence[str]], held: Mapping[str, int]) -> Iterator[int]:
    variable = re.fullmatch(r"\$\{?(\w{1,60})\}?", word)
    words = loops.get(variable[1], ()) if variable else (word,)
    for one in words:
        if _is_glob(one):
            yield from (pid for path, pid in held.items() if fnmatchcase(path, _anywhere(one)))
        elif one in held:
            yield held[one]
        else:
            yield from (pid for path, pid in held.items() if one.startswith("~/") and path.endswith(one[1:]))


def _is_glob(word: str) -> bool:
    return any(char in word for char in "*?[")


def _anywhere(pattern: str) -> str:
    """``~`` is somebody's home, which the file's printed name may spell out."""
    return "*" + pattern[1:] if pattern.startswith("~/") else pattern
