"""Take secrets out of what was read. The rules are loaded when the first text is met that may hold one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudiag.redact.hint import may_hold_secret

if TYPE_CHECKING:
    from gpudiag.redact.removal import Removal


class Redactor:
    """Takes secrets out of texts of one bundle."""

    def __init__(self) -> None:
        self._rules: Removal | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """How many were taken out, by kind."""
        return {} if self._rules is None else self._rules.counts

    def summary(self) -> list[str]:
        """What was removed, in words: ``2 × option value``."""
        return [f"{count} × {kind}" for kind, count in sorted(self.counts.items())]

    def argv(self, words: Sequence[str]) -> list[str]:
        """An argument vector; as many words come back as were given."""
        # Every name that announces a secret holds one of the hints.
        return self._removal().argv(words) if any(may_hold_secret(word) for word in words) else list(words)

    def cmdline(self, text: str) -> str:
        """A raw ``/proc/PID/cmdline``: NULs stay where they are."""
        return "\0".join(self.argv(text.split("\0"))) if "\0" in text else self.row(text)

    def rows(self, lines: Iterable[str]) -> Iterable[str]:
        """Lines one by one."""
        return map(self.row, lines)

    def row(self, text: str) -> str:
        """A command line, a line of a tool's table, of JSON, or of a log."""
        return self._removal().row(text) if may_hold_secret(text) else text

    def _removal(self) -> Removal:
        if self._rules is None:
            from gpudiag.redact.removal import Removal

            self._rules = Removal()
        return self._rules
