"""Lines of a plain-text output: wrapped to a width, and everything foreign made visible."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from gpudiag.report.escape import NOT_AS_SHOWN, visible
from gpudiag.report.fold import fold
from gpudiag.report.text import bounded, plural

T = TypeVar("T")

MIN_WIDTH: Final = 40
ROW_CAP: Final = 60
"""Rows of a list that a terminal shows; the plan is never cut."""
BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"


class Page:
    """Lines of one output. Everything added is made visible here, so no section can forget it."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self._colour = colour
        self._lines: list[str] = []

    def paint(self, text: str, code: str) -> None:
        """Lines of our own wording in a colour."""
        for line in _wrap(visible(bounded(text)), self.width):
            self._lines.append(f"{code}{line}{_PLAIN}" if self._colour else line)

    def heading(self, text: str) -> None:
        self._lines.append("")
        self.paint(text.upper(), BOLD)

    def say(self, text: str, indent: int = 2, first: str = "") -> None:
        """Prose; ``first`` stands before the first line and the others line up behind it."""
        head = visible(bounded(first))
        hang = _width(head)
        if indent + hang > self.width // 2:
            text, head, hang = first + text, "", 0
        for index, line in enumerate(_wrap(visible(bounded(text)), self.width - indent - hang)):
            self._lines.append(f"{' ' * indent}{head if index == 0 else ' ' * hang}{line}")

    def command(self, text: str, indent: int = 6) -> None:
        """A command that somebody else wrote, on a line of its own, whole."""
        shown = visible(text)
        self._lines.append(f"{' ' * indent}{shown}")
        if shown != text:
            self.say(NOT_AS_SHOWN, indent)

    def to_paste(self, text: str, indent: int = 6) -> None:
        """A command of the plan: where the page is narrower, on lines that a shell reads as one."""
        if visible(text) != text:
            self.command(text, indent)
            return
        self._lines.extend(f"{' ' * indent}{line}" for line in fold(text, self.width - indent))

    def rows(self, items: Iterable[T], draw: Callable[[T], None], noun: str) -> None:
        """At most ROW_CAP rows, and how many there are more."""
        rows = tuple(items)
        for item in rows[:ROW_CAP]:
            draw(item)
        if len(rows) > ROW_CAP:
            self.say(f"… and {plural(len(rows) - ROW_CAP, f'more {noun}')}, in the JSON report.")

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines).strip("\n") + "\n"


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_cells, text))


def _wrap(text: str, width: int) -> Iterator[str]:
    line: str | None = None
    for piece in _words(text, width):
        if line is None:
            line = piece
        elif _width(line) + 1 + _width(piece) > width:
            yield line
            line = piece
        else:
            line = f"{line} {piece}"
    yield line or ""


def _words(text: str, width: int) -> Iterator[str]:
    """Words; one that is wider than a line is broken to fit."""
    for piece in text.split(" "):
        start = used = 0
        for index, char in enumerate(piece):
            if used + _cells(char) > width:
                yield piece[start:index]
                start, used = index, 0
            used += _cells(char)
        yield piece[start:]
