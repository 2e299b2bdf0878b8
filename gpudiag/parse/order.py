"""Where recorded kill commands and log lines stand in time, by the looks of their input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpudiag.evidence.exhibit import Input, LookName
from gpudiag.model import KernelEvent, KillAction, LogEvent
from gpudiag.parse.log_stamps import resolve
from gpudiag.parse.parsed import Row

_BEFORE_ALL = frozenset({"history", "sudo_log", "audit", "stated"})
"""Where these have no time, nothing says that the command was issued while somebody looked."""


def placed(actions: Iterable[KillAction], evidence: Input) -> list[KillAction]:
    """Each action with the look that it follows."""
    starts = _starts(evidence)
    return [replace(action, after_look=_preceding(action, evidence.looks, starts)) for action in actions]


def finished(actions: Sequence[KillAction]) -> tuple[KillAction, ...]:
    """Each command once: a recorder notes it when it begins, and again with its end, if it lives to see it."""
    ended = {(action.host, action.pid, action.time_ns) for action in actions if action.exit_code is not None}
    return tuple(
        action
        for action in actions
        if action.pid is None or action.exit_code is not None or (action.host, action.pid, action.time_ns) not in ended
    )


def _preceding(action: KillAction, looks: Sequence[LookName], starts: dict[str, int]) -> str | None:
    if action.time_ns is None and action.source not in _BEFORE_ALL:
        # Without a time the record says: between the looks. The first of several is then the one before it.
        before = [look.id for look in looks if look.name == "before"]
        return before[0] if before else looks[0].id if len(looks) > 1 else None
    if action.time_ns is None:
        return None
    earlier = [look.id for look in looks if look.id in starts and starts[look.id] <= action.time_ns]
    return earlier[-1] if earlier else None


def dated(rows: Iterable[Row], evidence: Input) -> Iterator[Row]:
    """Log lines with the instant that their printed time means."""
    times = [exhibit.time_ns for exhibit in evidence.exhibits if exhibit.time_ns is not None]
    near = max(times, default=None)
    for row in rows:
        found = resolve(row.stamp, near) if isinstance(row, LogEvent | KernelEvent) else None
        if isinstance(row, LogEvent | KernelEvent) and found is not None:
            yield replace(row, time_ns=found[0], time_error_ns=found[1])
        else:
            yield row


def _starts(evidence: Input) -> dict[str, int]:
    """When each look was begun, where any of its commands has a time."""
    starts: dict[str, int] = {}
    for exhibit in evidence.exhibits:
        if exhibit.look is not None and exhibit.time_ns is not None:
            starts[exhibit.look] = min(exhibit.time_ns, starts.get(exhibit.look, exhibit.time_ns))
    return starts
