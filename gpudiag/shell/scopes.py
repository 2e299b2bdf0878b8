"""What a kill covers by structure instead of by name: a process group, a session, the children of one process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpudiag.shell.lines import Step, Word
from gpudiag.shell.tools import pgrep
from gpudiag.shell.wrappers import strip

_COVERED = {"-P": "the children of", "-g": "process group", "-s": "session"}
"""Options of ``pkill`` and ``pgrep``, and what each one covers."""


def scopes(step: Step) -> tuple[str, ...]:
    """In words (``process group 1094``), in the order written; empty where the step picks in no such way."""
    program = _program(step.words)
    if program == "pkill":
        return tuple(_criteria(step.words))
    if program != "kill":
        return ()
    lists = [one for word in step.words for one in word.substitutions] + ([step.fed_by] if step.fed_by else [])
    stages = [strip(words).words for one in lists for words in one.pipeline[:1]]
    listed = [found for words in stages if _program(words) == "pgrep" for found in _criteria(words)]
    return (*(f"process group {group}" for group in _groups(step.words)), *listed)


def _program(words: Sequence[Word]) -> str:
    return (words[0].text or "").rpartition("/")[2] if words else ""


def _criteria(words: Sequence[Word]) -> Iterator[str]:
    for option, value in pgrep.criteria_of(words):
        if option in _COVERED:
            yield f"{_COVERED[option]} {value.replace(',', ', ')}"


def _groups(words: Sequence[Word]) -> Iterator[int]:
    """``kill -TERM -1094`` and ``kill -- -1094``: the first word with a minus is the signal."""
    texts = [word.text or "" for word in words[1:]]
    given = texts.index("--") + 1 if "--" in texts else 1
    for text in texts[given:]:
        if re.fullmatch(r"-[0-9]{1,10}", text) and int(text) < -1:
            yield -int(text)
