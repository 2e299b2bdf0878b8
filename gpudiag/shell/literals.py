"""Text that every match of an extended regular expression must hold: without it no library has to be asked.

Deliberately narrow: where a pattern has anything unusual, nothing is required.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_LEAST = 3
"""A shorter piece of text is in too many command lines."""
_MOST = 8
_QUANTIFIERS = "*+?{"


@dataclass
class _Branch:
    """One alternative: the pieces that stand in it one after the other, each a choice of texts."""

    pieces: list[list[str]] = field(default_factory=list[list[str]])
    run: str = ""

    def close(self) -> None:
        if len(self.run) >= _LEAST:
            self.pieces.append([self.run])
        self.run = ""

    def best(self) -> list[str]:
        """The choice whose shortest text is the longest; empty: nothing is required."""
        self.close()
        return max(self.pieces, key=lambda texts: min(map(len, texts))) if self.pieces else []


class _UnusualError(Exception):
    pass


def required(pattern: str) -> list[list[str]]:
    """Choices of texts: whatever matches holds one text of each choice. None: nothing is required."""
    if not pattern.isascii():
        return []
    try:
        branches, end = _alternatives(pattern, 0, depth=0)
    except _UnusualError:
        return []
    if end < len(pattern):
        return []
    if len(branches) > 1:
        choices = [_one_of(branches)]
    else:
        branches[0].close()
        choices = branches[0].pieces
    return [texts for texts in choices if 0 < len(texts) <= _MOST]


def _one_of(branches: list[_Branch]) -> list[str]:
    """A choice that holds for every alternative; empty if one of them requires nothing."""
    best = [branch.best() for branch in branches]
    return [text for texts in best for text in texts] if all(best) else []


def _alternatives(pattern: str, position: int, *, depth: int) -> tuple[list[_Branch], int]:
    """The alternatives from here on, and where they end."""
    if depth > 8:
        raise _UnusualError
    branches = [_Branch()]
    while position < len(pattern) and pattern[position] != ")":
        char = pattern[position]
        position += 1
        if char == "|":
            branches.append(_Branch())
        elif char == "(":
            inner, position = _alternatives(pattern, position, depth=depth + 1)
            texts = _one_of(inner)
            if pattern[position : position + 1] != ")":
                raise _UnusualError
            position += 1
            branches[-1].close()
            if texts and pattern[position : position + 1] not in ("*", "?", "{"):
                branches[-1].pieces.append(texts)
        elif char == "[":
            position = _bracket_end(pattern, position)
            branches[-1].close()
        else:
            position = _atom(pattern, position, char, branches[-1])
    return branches, position


def _atom(pattern: str, position: int, char: str, branch: _Branch) -> int:
    """A character, an anchor, a point or a quantifier."""
    if char == "\\":
        char = pattern[position : position + 1]
        position += 1
        if not char or char.isalnum() or char in "<>`'":
            branch.close()
            if not char or char.isdigit():
                raise _UnusualError
            return position
    elif char in ".^$" or char in _QUANTIFIERS:
        if char == "{":
            end = pattern.find("}", position)
            if end < 0:
                raise _UnusualError
            position = end + 1
        branch.close()
        return position
    following = pattern[position : position + 1]
    if following and following in "*?{":
        # It may be missing, or come more often.
        branch.close()
    else:
        branch.run += char
        if following == "+":
            branch.close()
    return position


def _bracket_end(pattern: str, position: int) -> int:
    """Where ``[…]`` ends; one with classes inside is left to the library."""
    position += pattern[position : position + 1] == "^"
    end = pattern.find("]", position + 1)
    if end < 0 or "[" in pattern[position:end]:
        raise _UnusualError
    return end + 1
