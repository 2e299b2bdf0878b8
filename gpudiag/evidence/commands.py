"""As much of a command line as evidence needs: the commands that it is made of, and their words."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Container, List, Sequence

TEXT_CAP = 4096
"""Characters of a line that are looked at to tell where it leads."""
_BEFORE = frozenset(
    {
        "sudo",
        "doas",
        "time",
        "nohup",
        "exec",
        "command",
        "env",
        "setsid",
        "do",
        "then",
        "else",
        "if",
        "while",
        "until",
        "!",
        "{",
    }
)
_TAKES_VALUE = frozenset({"-u", "-g", "-E", "-C"})
_BEFORE_WITH_OPERANDS = {"timeout": (frozenset({"-k", "-s"}), 1), "sshpass": (frozenset({"-p", "-f", "-P", "-d"}), 0)}
"""Options with a value, and operands, that stand between the name and the program."""
_ASSIGNMENT = re.compile(r"\w{1,60}=")


@dataclass(frozen=True)
class Part:
    """One command of a line: no separator stands in it, except in quotes or in a substitution."""

    start: int
    end: int
    text: str
    piped: bool
    """It reads what the part before it prints."""


def parts(text: str) -> List[Part]:
    """The commands of a line in order. Behind ``<<`` nothing is cut: that is the text that a command reads."""
    found: List[Part] = []
    start = position = depth = 0
    quote, piped = "", False
    while position < len(text):
        char = text[position]
        if char == "\\" and quote != "'":
            position += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"`":
            quote = char
        elif char == "(" and text[position - 1 : position] == "$":
            depth += 1
        elif depth:
            depth += {"(": 1, ")": -1}.get(char, 0)
        elif text.startswith("<<", position):
            break
        elif char in ";|&\n()" and text[position - 1 : position] not in (">", "<") and text[position + 1 :][:1] != ">":
            if text[start:position].strip():
                found.append(Part(start, position, text[start:position].strip(), piped))
                piped = False
            piped = (char == "|" and text[position - 1 : position] != "|") and text[position + 1 :][:1] != "|"
            start = position + 1
        position += 1
    if text[start:].strip():
        found.append(Part(start, len(text), text[start:].strip(), piped))
    return found


def bare(words: Sequence[str]) -> List[str]:
    """Without what stands before the program: ``sudo -u bob``, ``X=1``, ``timeout 5``."""
    left = list(words)
    while left:
        if left[0] in _BEFORE_WITH_OPERANDS:
            with_value, operands = _BEFORE_WITH_OPERANDS[left[0]]
            left = _behind_options(left[1:], with_value)[operands:]
        elif left[0] in _BEFORE or _ASSIGNMENT.match(left[0]):
            left = _behind_options(left[1:], _TAKES_VALUE)
        else:
            break
    return left


def _behind_options(words: List[str], with_value: Container[str]) -> List[str]:
    left = words
    while left and left[0].startswith("-") and len(left[0]) > 1:
        left = left[2:] if left[0] in with_value and len(left) > 1 else left[1:]
    return left


def split_words(text: str) -> List[str]:
    """The words of a command line, as a shell would split them."""
    try:
        return shlex.split(text)
    except ValueError:
        # An unclosed quote: the words before it are still good.
        return text.split()
