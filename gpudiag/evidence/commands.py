"""As much of a command line as evidence needs: the host it ran on, and whether it kills something.

What exactly is killed is the shell stage's business; here it only matters where one look ends.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import List, Optional

_TEXT_CAP = 65536
_TARGET_CAP = 4096
"""Characters in which ssh's target must stand."""
_SSH_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")
# Every repetition is bounded, so that the time stays proportional to the length of the text.
# Options, each perhaps with a value of its own: -u root.
_OPTIONS = r"(?:-{1,2}\S{1,100}\s{1,20}(?:[^-\s;|&'\"]\S{0,100}\s{1,20})?){0,6}"
_ASSIGNMENTS = r"(?:\w{1,60}=\S{0,200}\s{1,20}){0,5}"
_END = r"(?=[\s;&|)'\"]|$)"
# A word counts as a command where a command may stand: at the start, after a separator, an opening quote or
# bracket, or behind a program that runs another one, here or on another host.
_AT_COMMAND = (
    r"(?:^|[;&|(`'\"{\n!]|\b(?:then|do|else|exec|sudo|nohup|command|xargs|time|env|setsid)\s"
    r"|\b(?:ssh|srun|nsenter|chroot|(?:docker|podman|kubectl)\s{1,20}exec)\s{1,20}"
    r"(?:(?!grep|echo|cat|man|which|less)[^\s'\"]{1,100}\s{1,20}){1,12}?)"
    r"\s{0,20}"
    + _ASSIGNMENTS
    + _OPTIONS
    + r"(?:timeout\s{1,20}"
    + _OPTIONS
    + r"[\d.]{1,9}[smh]?\s{1,20})?(?:[\w./-]{0,200}/)?"
)
_KILLERS = (
    r"(?:pkill|kill|killall|skill|xkill|scancel)" + _END,
    r"fuser\s[^;|&]{0,500}?(?:--kill|-[a-zA-Z]{0,20}k[a-zA-Z]{0,20})" + _END,
    r"(?:docker|podman)\s{1,20}" + _OPTIONS + r"(?:(?:container|compose)\s{1,20}" + _OPTIONS + r")?"
    r"(?:kill|stop|rm|restart|down)\b",
    r"systemctl\s{1,20}" + _OPTIONS + r"(?:stop|kill|restart)\b",
    r"ray\s{1,20}stop\b",
    r"kubectl\s{1,20}" + _OPTIONS + r"delete\b",
    r"tmux\s{1,20}kill-\w{1,20}",
    r"nvidia-smi\s[^;|&]{0,500}?(?:--gpu-reset|-r)" + _END,
)
_KILLS = re.compile(_AT_COMMAND + "(?:" + "|".join(_KILLERS) + ")")
_LISTS_ONLY = re.compile(r"\bkill\s+-[lL]\b|\bkill\s+-0\b")


@dataclass(frozen=True)
class Remote:
    """Target of an ssh command."""

    host: str
    user: Optional[str]


def first_kill(text: str) -> Optional[int]:
    """Where the first command stands that ends processes or their container, job, session or GPU state."""
    match = _KILLS.search(_LISTS_ONLY.sub(lambda found: ":" * len(found[0]), text[:_TEXT_CAP]))
    return match.end() if match else None


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
