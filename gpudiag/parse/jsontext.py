"""JSON from a machine that may have died while writing it: what is whole is kept, the torn end is noted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import cast

_SPACE = re.compile(r"[\s,]*")
_SIZE_CAP = 16 * 1024 * 1024
_NEAR = 1024 * 1024
"""Characters that are searched for a token; one process of ``proc.json`` with many threads is some 100 KB."""
_MISSES_CAP = 100
"""After so many tokens that are not where they should be, citations stop at the place of the last one found."""
_MARKS = re.compile(r'["\s,\[\]{}:]')


class JsonText:
    """One JSON document, with the values that could be read and the lines on which they stand."""

    def __init__(self, text: str) -> None:
        self._text = text[:_SIZE_CAP]
        self._offset, self._line = 0, 0
        self._misses = 0
        self.problem: str | None = None
        """Why a part of the document is missing."""
        self.value = self._load()
        if len(text) > _SIZE_CAP:
            self.problem = f"JSON longer than {_SIZE_CAP >> 20} MiB"

    def find(self, token: str, start: int) -> int:
        """Where a token stands at or behind ``start``; ``start`` itself if it is not near."""
        position = self._text.find(token, start, start + _NEAR) if self._misses < _MISSES_CAP else -1
        while position >= 0:
            end = position + len(token)
            if self._bounded(position - 1) and self._bounded(end):
                return position
            position = self._text.find(token, position + 1, start + _NEAR)
        self._misses += 1
        return start

    def line_of(self, offset: int) -> int:
        """Zero-based line of a place. Places are asked for nearly in order, so counting from the last one is cheap."""
        if offset >= self._offset:
            self._line += self._text.count("\n", self._offset, offset)
        else:
            self._line -= self._text.count("\n", offset, self._offset)
        self._offset = offset
        return self._line

    def quote(self, offset: int, cap: int) -> str:
        """The line around a place, without its indentation."""
        start = self._text.rfind("\n", max(0, offset - cap), offset) + 1 or max(0, offset - cap)
        end = self._text.find("\n", offset, offset + cap)
        return self._text[start : offset + cap if end < 0 else end].strip()[:cap]

    def _bounded(self, position: int) -> bool:
        return not 0 <= position < len(self._text) or bool(_MARKS.match(self._text[position]))

    def _load(self) -> object:
        try:
            return json.loads(self._text)
        except RecursionError:
            self.problem = "JSON nested too deeply"
            return None
        except ValueError as error:
            self.problem = f"JSON is not whole: {str(error)[:120]}"
        try:
            return self._salvage()
        except (ValueError, RecursionError):
            return None

    def _salvage(self) -> object:
        """The whole elements of a list or a mapping whose end is missing."""
        start = self._text.lstrip()[:1]
        position = self._text.find(start) + 1 if start else 0
        if start == "[":
            return self._elements(position)
        if start == "{":
            return self._entries(position)
        return None

    def _elements(self, position: int) -> list[object]:
        decoder = json.JSONDecoder()
        values: list[object] = []
        while True:
            position = _skip(self._text, position)
            try:
                value, position = cast("tuple[object, int]", decoder.raw_decode(self._text, position))
            except ValueError:
                return values
            values.append(value)

    def _entries(self, position: int) -> dict[str, object]:
        decoder = json.JSONDecoder()
        entries: dict[str, object] = {}
        while True:
            position = _skip(self._text, position)
            try:
                key, position = cast("tuple[object, int]", decoder.raw_decode(self._text, position))
                colon = self._text.find(":", position)
                if not isinstance(key, str) or colon < 0:
                    return entries
                start = _skip(self._text, colon + 1)
                value, position = cast("tuple[object, int]", decoder.raw_decode(self._text, start))
            except ValueError:
                return entries
            entries[key] = value


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def mapping(value: object) -> Mapping[str, object]:
    """The value if it is a JSON object, else an empty one."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """The value if it is a JSON list, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def elements(value: object) -> list[object]:
    """The elements of a list; any other value is one element."""
    return cast("list[object]", value) if isinstance(value, list) else [value]


def text_of(value: object) -> str | None:
    """The value if it is a string."""
    return value if isinstance(value, str) else None


def integer(value: object) -> int | None:
    """The value if it is a whole number (``true`` is none)."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: object) -> float | None:
    """The value if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if abs(result) < 1e30 else None
