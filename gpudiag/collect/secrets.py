"""Secrets never enter the bundle: every row goes through here on its way, and what was taken out is counted."""

from __future__ import annotations

from typing import Protocol

from gpudiag.redact.redactor import Redactor
from gpudiag.redact.rows import Rows


class Secrets(Protocol):
    """Takes secrets out of the rows of one source."""

    def row(self, text: str) -> str:
        """The row without them."""
        ...

    def removed(self) -> str | None:
        """What was taken out, in words; ``None``: nothing."""
        ...


class RowSecrets:
    """The usual one."""

    def __init__(self) -> None:
        self._redactor = Redactor()
        self._rows = Rows(self._redactor)

    def row(self, text: str) -> str:
        return self._rows.row(text)

    def removed(self) -> str | None:
        found = self._redactor.summary()
        return "taken out: " + ", ".join(found) if found else None
