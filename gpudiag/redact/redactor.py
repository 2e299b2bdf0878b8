"""Take secrets out of what was read. The rules are loaded when the first text is met that may hold one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpudiag.redact.hint import REDACTED, may_hold_secret

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

    def row(self, text: str) -> str:
        """A command line, a line of a tool's table, of JSON, or of a log."""
        return self._removal().row(text) if may_hold_secret(text) else text

    def assigned(self, value: str) -> str:
        """A value whose name, which stands elsewhere, announces a secret."""
        return self._removal().assigned(value)

    def whole(self, value: str, kind: str) -> str:
        """A text that is a secret from its beginning to its end; ``kind``: under what it is counted."""
        return self._removal().whole(value, kind)

    def without_taken(self, text: str) -> str:
        """A text without the values that were taken out of others, the longer ones first."""
        for value in sorted(self.taken, key=lambda value: (-len(value), value)):
            text = text.replace(value, REDACTED)
        return text

    @property
    def taken(self) -> frozenset[str]:
        """Values that were taken out and look like nothing but a secret, wherever else they may stand."""
        return frozenset() if self._rules is None else frozenset(self._rules.taken)

    def _removal(self) -> Removal:
        if self._rules is None:
            from gpudiag.redact.removal import Removal

            self._rules = Removal()
        return self._rules
