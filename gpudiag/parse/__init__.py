"""Exhibits -> rows of the model. One module a text format; no row is explained here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gpudiag.evidence.exhibit import Input
from gpudiag.model import (
    Booking,
    ClockPair,
    Coverage,
    Damage,
    GpuSample,
    Handle,
    HostFact,
    KillAction,
    LogRole,
    Process,
    TraceEvent,
)
from gpudiag.parse import proc_files
from gpudiag.parse.formats import rows
from gpudiag.parse.order import placed
from gpudiag.parse.parsed import Parsed, Row

__all__ = ["Parsed", "parse"]

_T = TypeVar("_T")


def parse(inputs: Sequence[Input]) -> Parsed:
    """All rows of all inputs. Never raises for what an input holds; what cannot be read becomes ``Damage``."""
    found: list[Row] = []
    for evidence in inputs:
        found += evidence.damage
        found += evidence.actions
        found += proc_files.rows(exhibit for exhibit in evidence.exhibits if proc_files.is_proc_file(exhibit))
        for exhibit in evidence.exhibits:
            if proc_files.is_proc_file(exhibit):
                continue
            read = list(rows(exhibit))
            found += placed((row for row in read if isinstance(row, KillAction)), evidence)
            found += (row for row in read if not isinstance(row, KillAction))
    return Parsed(
        looks=tuple(look for evidence in inputs for look in evidence.looks),
        samples=_of(found, GpuSample),
        bookings=_of(found, Booking),
        processes=_of(found, Process),
        handles=_of(found, Handle),
        actions=_of(found, KillAction),
        trace=_of(found, TraceEvent),
        clocks=_of(found, ClockPair),
        roles=_of(found, LogRole),
        facts=_of(found, HostFact),
        coverage=_of(found, Coverage),
        damage=_of(found, Damage),
    )


def _of(found: Sequence[object], kind: type[_T]) -> tuple[_T, ...]:
    return tuple(row for row in found if isinstance(row, kind))
