r"""A command of our own on several lines that a shell reads as one, for a terminal that is narrower than the command.

Lines are broken before ``&&``, ``||`` and ``|``, with a backslash at the end. So no line but the first does anything by
itself: whoever pastes a part of a command gets a syntax error, and never the ``kill`` without its check. Statements are
parted behind their ``;``, and a single program's line ends before an option. Inside quotes nothing is touched,
and what is not understood stays on one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_OPERATOR: Final = re.compile(r"(?:&&|\|\|?) ")
_COMPOUND: Final = re.compile(r"(?:^|[\s;(])(?:case|do|done|elif|else|esac|fi|for|if|then|until|while|[{}])(?=[\s;]|$)")
"""Words between which a ``;`` does not end a statement."""
_HANG: Final = "  "


@dataclass(frozen=True)
class _Break:
    """A blank at which a line may end."""

    at: int
    depth: int
    """Command substitutions around it."""
    kind: str
    """``operator`` or ``option`` (what follows), ``statement`` (what ends)."""


class _NotUnderstoodError(Exception):
    """The command has something that this does not read."""


def fold(command: str, width: int) -> tuple[str, ...]:
    """The command's lines; one that cannot be broken is wider than ``width``."""
    if len(command) <= width:
        return (command,)
    try:
        breaks = list(_breaks(command))
    except _NotUnderstoodError:
        return (command,)
    if any(found.kind == "operator" for found in breaks):
        # What follows an option would run by itself, with what hangs on it.
        breaks = [found for found in breaks if found.kind != "option"]
    return tuple(_lines(command, breaks, width))


def _lines(command: str, breaks: list[_Break], width: int) -> Iterator[str]:
    start, hang = 0, ""
    while len(hang) + len(command) - start > width:
        left = [found for found in breaks if found.at > start]
        chosen = _chosen(left, start + width - len(hang))
        if chosen is None:
            break
        yield hang + command[start : chosen.at] + ("" if chosen.kind == "statement" else " \\")
        start = chosen.at + 1
        hang = "" if chosen.kind == "statement" else _HANG
    yield hang + command[start:]


def _chosen(left: list[_Break], end: int) -> _Break | None:
    """The last break that fits, outside of substitutions if one does; else the first that does not."""
    fitting = [found for found in left if found.at + (0 if found.kind == "statement" else 2) <= end]
    for good in (
        [found for found in fitting if found.kind == "statement"],
        [found for found in fitting if found.kind == "operator" and found.depth == 0],
        [found for found in fitting if found.kind == "operator"],
        fitting,
    ):
        if good:
            return good[-1]
    return left[0] if left else None


def _breaks(command: str) -> Iterator[_Break]:
    """Every blank outside of quotes at which the command may be broken."""
    inside: list[str] = []
    compound = _COMPOUND.search(command) is not None
    at = 0
    while at < len(command):
        char = command[at]
        quoted = bool(inside) and inside[-1] == '"'
        if char in "`\n\r" or (not quoted and (command.startswith(("<<", "$'", "$((", "#"), at) or char == "(")):
            raise _NotUnderstoodError
        if char == "\\":
            at += 2
            continue
        if char == "'" and not quoted:
            at = command.find("'", at + 1)
            if at < 0:
                raise _NotUnderstoodError
        elif char == '"':
            inside.pop() if quoted else inside.append('"')
        elif command.startswith("$(", at):
            inside.append("$(")
            at += 1
        elif char == ")" and inside and not quoted:
            inside.pop()
        elif char == " " and not quoted:
            yield from _break(command, at, inside.count("$("), compound)
        at += 1
    if inside:
        raise _NotUnderstoodError


def _break(command: str, at: int, depth: int, compound: bool) -> Iterator[_Break]:
    if _OPERATOR.match(command, at + 1):
        yield _Break(at, depth, "operator")
    elif depth == 0 and not compound and command[at - 1 : at] == ";":
        yield _Break(at, depth, "statement")
    elif depth == 0 and command[at + 1 : at + 2] == "-":
        yield _Break(at, depth, "option")
