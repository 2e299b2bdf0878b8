"""How many rows one incident may have: what is joined with each other afterwards must not cost without bound.

A table that is cut covers its class no more: that a process is missing from it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Booking, Coverage, Damage, Handle, KillAction
from gpudiag.parse import formats
from gpudiag.parse.formats import as_truncated
from gpudiag.parse.parsed import Row

LINES_CAP: Final = 500_000
"""Of all texts but logs, which are searched and not cut into lines."""
ROWS_CAP: Final = 200_000
"""Of all kinds. A host with thirty thousand processes, looked at three times by two tools, has fewer."""
HOLDERS_CAP: Final = 1_000
"""PIDs with a device open or memory on it: each of them is weighed against the others."""
ACTIONS_CAP: Final = 300
"""Kill commands: each is replayed on the process tables around it."""


@dataclass
class Budget:
    """What is left for the exhibits that come."""

    lines: int = LINES_CAP
    rows: int = ROWS_CAP
    actions: int = ACTIONS_CAP
    holders: set[tuple[str, int]] = field(default_factory=lambda: set[tuple[str, int]]())

    def readable(self, exhibit: Exhibit) -> tuple[Exhibit, Damage | None]:
        """The exhibit with as many lines as may still be read, and what is said where that are not all."""
        if formats.is_searched(exhibit):
            return exhibit, None
        count = exhibit.text.count("\n")
        if count <= self.lines:
            self.lines -= count
            return exhibit, None
        end = 0
        for _ in range(self.lines):
            end = exhibit.text.index("\n", end) + 1
        self.lines = 0
        reason = f"more than {LINES_CAP:,} lines in all: the rest was not read"
        cut = replace(exhibit, text=exhibit.text[:end], outcome="truncated", because=reason)
        return cut, Damage(exhibit.input, exhibit.member, None, reason)

    def take(self, read: Sequence[Row], exhibit: Exhibit) -> list[Row]:
        """The rows that are kept of one exhibit; what is left out is said."""
        kept: list[Row] = []
        over = ""
        for row in read:
            limit = None if isinstance(row, (Coverage, Damage)) else self._limit(row)
            if limit is None:
                kept.append(row)
            else:
                over = over or limit
        if not over:
            return kept
        reason = f"more than {over} in all: the rest was not used"
        damage = Damage(exhibit.input, exhibit.member, None, reason)
        return [*(as_truncated(row, reason) for row in kept), damage]

    def _limit(self, row: Row) -> str | None:
        """The limit that keeps this row out; else it is counted."""
        if self.rows <= 0:
            return f"{ROWS_CAP:,} rows"
        if isinstance(row, KillAction):
            if self.actions <= 0:
                return f"{ACTIONS_CAP:,} kill commands"
            self.actions -= 1
        if isinstance(row, (Handle, Booking)):
            holder = (row.at.host, row.pid)
            if holder not in self.holders and len(self.holders) >= HOLDERS_CAP:
                return f"{HOLDERS_CAP:,} processes that use a GPU"
            self.holders.add(holder)
        self.rows -= 1
        return None
