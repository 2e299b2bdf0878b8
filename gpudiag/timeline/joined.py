"""Looks that a command lies between which reached nobody: they are one.

A transcript's look ends at every kill command. ``kill`` of a PID that the list before it names as ``[Not Found]`` or
without its name, and of which ``kill`` itself says that there is no such process, changed nothing: what was asked
before it and what was asked after it speak of one state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from gpudiag.evidence.exhibit import LookName
from gpudiag.model import Inquiry, KillAction, Place
from gpudiag.parse.parsed import Parsed
from gpudiag.timeline.lives import NOT_FOUND
from gpudiag.timeline.messages import no_such_process

_KILL = re.compile(r"(?:sudo\s+)?kill\s+(?:-\w+\s+)?(?P<pids>\d{1,10}(?:\s+\d{1,10})*)\s*\Z")


def join_looks(parsed: Parsed) -> Parsed:
    """The same rows with such looks joined; the answer of ``kill`` becomes a question that found nobody."""
    for action in parsed.actions:
        pids = _reached_nobody(action)
        before, after = _neighbours(parsed, action)
        if not pids or before is None or not pids <= _not_found(parsed, before):
            continue
        asked = Inquiry(Place(before.host, before.id, None, 0), action.cited, pids=tuple(sorted(pids)))
        parsed = replace(parsed, inquiries=(*parsed.inquiries, asked))
        if after is not None and not _sources(parsed, before) & _sources(parsed, after):
            parsed = _moved(parsed, before, after)
    return parsed


def _reached_nobody(action: KillAction) -> set[int]:
    """The PIDs of a plain ``kill``, if it said of each that there is no such process."""
    typed = _KILL.match(action.text.strip()) if action.source == "transcript" and action.time_ns is None else None
    pids = set(map(int, typed["pids"].split())) if typed is not None else set[int]()
    absent = set(no_such_process(action.output or "", sorted(pids)))
    return pids if pids <= absent else set()


def _neighbours(parsed: Parsed, action: KillAction) -> tuple[LookName | None, LookName | None]:
    """The looks before and after the command, where both are of its host and no other command is between them."""
    names = list(parsed.looks)
    place = next((n for n, look in enumerate(names) if look.id == action.after_look), None)
    if place is None or names[place].host != action.host:
        return None, None
    others = [other for other in parsed.actions if other.after_look == action.after_look and other is not action]
    after = names[place + 1] if place + 1 < len(names) and not others else None
    same = after is not None and after.host == action.host and after.id.partition(":")[0] == action.cited.input
    return names[place], after if same else None


def _not_found(parsed: Parsed, look: LookName) -> set[int]:
    """Listed PIDs of which nvidia-smi says so, or whose name nobody asked for."""
    rows = [row for row in parsed.bookings if row.at.look == look.id]
    return {row.pid for row in rows if row.name_missing == NOT_FOUND or (row.name is None and row.name_missing is None)}


def _sources(parsed: Parsed, look: LookName) -> set[str]:
    """What was asked in a look: asked again, the later answer is the newer one."""
    return {row.source for row in parsed.coverage if row.at.look == look.id and row.outcome == "ok"}


def _moved(parsed: Parsed, before: LookName, after: LookName) -> Parsed:
    """Every row of the later look in the earlier one."""
    changed: dict[str, Any] = {
        field.name: tuple(_rows(getattr(parsed, field.name), before.id, after.id)) for field in fields(parsed)
    }
    changed["looks"] = tuple(look for look in parsed.looks if look is not after)
    return replace(parsed, **changed)


def _rows(rows: tuple[Any, ...], before: str, after: str) -> Iterator[Any]:
    for row in rows:
        place = getattr(row, "at", None)
        if isinstance(place, Place) and place.look == after:
            yield replace(row, at=replace(place, look=before))
        elif isinstance(row, KillAction) and row.after_look == after:
            yield replace(row, after_look=before)
        else:
            yield row
