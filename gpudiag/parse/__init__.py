"""Exhibits -> rows of the model. One module a text format; no row is explained here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from gpudiag.evidence.exhibit import Exhibit, Input
from gpudiag.model import (
    Accounted,
    Booking,
    ClockPair,
    Container,
    Coverage,
    Damage,
    GpuName,
    GpuReading,
    GpuSample,
    Handle,
    HostFact,
    Inquiry,
    Interrupt,
    Job,
    KernelEvent,
    KernelModule,
    KernelStack,
    KillAction,
    Listener,
    LogEvent,
    LogRole,
    PidFile,
    PidProbe,
    Pod,
    Process,
    Refusal,
    RefusedWord,
    TraceEvent,
    Unit,
)
from gpudiag.parse import leftover, proc_files, tallies
from gpudiag.parse.budget import Budget
from gpudiag.parse.formats import rows
from gpudiag.parse.order import dated, placed
from gpudiag.parse.parsed import Parsed, Row

__all__ = ["Parsed", "parse"]

_T = TypeVar("_T")


def parse(inputs: Sequence[Input]) -> Parsed:
    """All rows of all inputs. Never raises for what an input holds; what cannot be read becomes ``Damage``."""
    found: list[Row] = []
    budget = Budget()
    for evidence in inputs:
        start = len(found)
        found += evidence.damage
        found += _commands(evidence, budget)
        found += evidence.coverage
        found += evidence.clocks
        found += proc_files.rows(exhibit for exhibit in evidence.exhibits if proc_files.is_proc_file(exhibit))
        for whole in evidence.exhibits:
            if proc_files.is_proc_file(whole):
                continue
            exhibit, cut_off = budget.readable(whole)
            found += [cut_off] if cut_off is not None else []
            read = budget.take([_as_recorded(row, exhibit) for row in rows(exhibit)], exhibit)
            found += placed((row for row in read if isinstance(row, KillAction)), evidence)
            found += dated((row for row in read if not isinstance(row, KillAction)), evidence)
            found += tallies.rows(exhibit, found[start:])
        found[start:] = leftover.capped(found[start:])
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
        log_events=_of(found, LogEvent),
        kernel_events=_of(found, KernelEvent),
        gpu_names=_of(found, GpuName),
        accounted=_of(found, Accounted),
        containers=_of(found, Container),
        units=_of(found, Unit),
        jobs=_of(found, Job),
        pods=_of(found, Pod),
        listeners=_of(found, Listener),
        stacks=_of(found, KernelStack),
        readings=_of(found, GpuReading),
        refusals=_of(found, Refusal),
        modules=_of(found, KernelModule),
        probes=_of(found, PidProbe),
        interrupts=_of(found, Interrupt),
        pid_files=_of(found, PidFile),
        refused_words=_of(found, RefusedWord),
        inquiries=_of(found, Inquiry),
        recorders=tuple(evidence.recorder for evidence in inputs if evidence.recorder is not None),
    )


def _commands(evidence: Input, budget: Budget) -> list[Row]:
    """The commands that were typed into a session, the newest ones if there are too many."""
    room = budget.actions
    budget.actions -= min(room, len(evidence.actions))
    if len(evidence.actions) <= room:
        return [*evidence.actions]
    left = len(evidence.actions) - room
    damage = Damage(evidence.id, "", None, f"{left} more kill commands before the newest {room}: they were not used")
    return [damage, *evidence.actions[left:]]


def _as_recorded(row: Row, exhibit: Exhibit) -> Row:
    """A source that was not read to its end does not cover its class, whatever its text looks like."""
    if exhibit.outcome in (None, "ok") or not isinstance(row, Coverage) or row.outcome != "ok":
        return row
    return replace(row, outcome=exhibit.outcome, because=exhibit.because, complete=False)


def _of(found: Sequence[object], kind: type[_T]) -> tuple[_T, ...]:
    return tuple(row for row in found if isinstance(row, kind))
