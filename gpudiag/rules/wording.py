"""The values that a finding's text shows for a group of rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from gpudiag.ranges import names_in_runs, numbers_in_runs

MAX_LISTED = 16
"""Values named in a sentence; the finding's own lists hold all of them."""

MAX_VALUE = 300
"""Longest value in a sentence, in characters."""

_ALIASES = {"pids": "pid", "names": "name", "steps": "step"}


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Sort key under which P7 comes before P10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.findall(r"[0-9]{1,18}|\D+", text))


@dataclass(frozen=True)
class Group:
    """The firing rows of one finding."""

    rows: tuple[dict[str, Any], ...]
    explains: str | None
    """Column in MiB, or ``None`` where the rule explains no memory."""

    def distinct(self, column: str) -> list[Any]:
        """The column's known values in order of appearance, lists flattened."""
        found: dict[Any, None] = {}
        for row in self.rows:
            value: Any = row[column]
            items = cast("list[Any]", value) if isinstance(value, list) else [value]
            found.update((item, None) for item in items if item is not None)
        return list(found)

    def explained_mib(self) -> float | None:
        """Sum over the rows' holders of what is known, or ``None`` where nothing is."""
        known = [mib for mib in self._per_holder().values() if mib is not None]
        return sum(known) if known else None

    def placeholder(self, name: str) -> str | None:
        """What stands for ``{name}``, or ``None`` where no row knows it."""
        if name == "count":
            return str(len(self._per_holder()))
        if name == "mib":
            return self._mib()
        values = self.distinct(_ALIASES.get(name, name))
        if name in ("pids", "steps", "gpus"):
            values.sort(key=lambda value: natural(str(value)))
        if name == "pids":
            values = numbers_in_runs(values)
        elif name != "steps" and all(isinstance(value, str) for value in values):
            values = names_in_runs(values)
        return _listed(values) if values else None

    def _per_holder(self) -> dict[tuple[object, ...], float | None]:
        """One figure for each process, or where the rows name none, for each family, GPU and step.

        A process stands in several rows where several steps missed it; it holds its memory once.
        """
        found: dict[tuple[object, ...], float | None] = {}
        for row in self.rows:
            process = row["process"]
            key = (process,) if process is not None else (row["family"], tuple(row["gpus"] or ()), row["step"])
            mib = None if self.explains is None else row[self.explains]
            before = found.get(key)
            found[key] = before if mib is None else mib if before is None else max(mib, before)
        return found

    def _mib(self) -> str | None:
        known = self.explained_mib()
        if known is None:
            return None
        complete = all(mib is not None for mib in self._per_holder().values())
        return _number(known) if complete else f"at least {_number(known)}"


def _listed(values: Iterable[Any]) -> str:
    shown = [_shown(value) for value in values]
    rest = len(shown) - MAX_LISTED
    return ", ".join(shown[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _number(value)
    text = str(value)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


def _number(value: float) -> str:
    """Thousands apart; one decimal unless it is whole."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
