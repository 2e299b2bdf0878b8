"""Secrets never enter the bundle: every row goes through here on its way, and what was taken out is counted."""

from __future__ import annotations

import json
import re
from typing import Protocol, cast

from gpudiag.redact.hint import may_hold_secret
from gpudiag.redact.redactor import Redactor

_RECORD = re.compile(r"(?P<front>,?(?:\"\w{1,20}\": )?)(?P<value>\{.*\}\Z)", re.DOTALL)
"""A row of a JSON source: an element of a list, or a member of an object."""


class Secrets(Protocol):
    """Takes secrets out of the rows of one source."""

    def row(self, text: str) -> str:
        """The row without them."""
        ...

    def removed(self) -> str | None:
        """What was taken out, in words; ``None``: nothing."""
        ...


class RowSecrets:
    """The usual one. In JSON the texts are looked at as they were, not as JSON writes them: a NUL ends an argument."""

    def __init__(self) -> None:
        self._redactor = Redactor()

    def row(self, text: str) -> str:
        # A hint is plain ASCII, which JSON leaves as it is.
        if not may_hold_secret(text):
            return text
        match = _RECORD.match(text)
        if match is None:
            return self._redactor.row(text)
        try:
            value: object = json.loads(match["value"])
        except ValueError:
            return self._redactor.row(text)
        return match["front"] + json.dumps(self._value(value))

    def removed(self) -> str | None:
        found = self._redactor.summary()
        return "taken out: " + ", ".join(found) if found else None

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            return self._redactor.cmdline(value)
        if isinstance(value, list):
            words = cast("list[object]", value)
            if words and all(isinstance(word, str) for word in words):
                return self._redactor.argv(cast("list[str]", words))
            return [self._value(item) for item in words]
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in cast("dict[str, object]", value).items()}
        return value
