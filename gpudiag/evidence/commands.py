"""As much of a command line as evidence needs: its words, and the host it ran on."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import List, Optional

_TEXT_CAP = 65536
_TARGET_CAP = 4096
"""Characters in which ssh's target must stand."""
_SSH_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")


@dataclass(frozen=True)
class Remote:
    """Target of an ssh command."""

    host: str
    user: Optional[str]


def remote(text: str) -> Optional[Remote]:
    """The host that an ``ssh …`` line runs its command on; ``None`` if the line is not one."""
    words = split_words(text[:_TARGET_CAP]) if "ssh" in text[:_TARGET_CAP] else []
    while words and (words[0] in ("sudo", "time", "nohup") or re.fullmatch(r"\w+=\S*", words[0])):
        words = words[1:]
    if len(words) < 2 or words[0].rpartition("/")[2] != "ssh":
        return None
    return _target(words[1:])


def _target(words: List[str]) -> Optional[Remote]:
    user: Optional[str] = None
    skip = False
    for position, word in enumerate(words):
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            takes_next = word[-1] in _SSH_WITH_VALUE and (len(word) == 2 or not set(word[1:-1]) & _SSH_WITH_VALUE)
            if word[1] == "l":
                user = word[2:] or (words[position + 1] if position + 1 < len(words) else None)
            skip = takes_next
        else:
            name, at, host = word.rpartition("@")
            return Remote(host, name if at else user)
    return None


def split_words(text: str) -> List[str]:
    """The words of a command line, as a shell would split them."""
    try:
        return shlex.split(text)
    except ValueError:
        # An unclosed quote: the words before it are still good.
        return text.split()
