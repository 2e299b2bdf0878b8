"""Exhibits -> rows of the model. One module a text format; no row is explained here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from gpudiag.evidence.exhibit import Exhibit, Input, LookName
from gpudiag.model import (
    Accounted,
    Booking,
    ClockPair,
    Container,
    Coverage,
    Damage,
    Ending,
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
    Printout,
    Process,
    Recorder,
    Refusal,
    RefusedWord,
    TraceEvent,
    Unit,
)
from gpudiag.parse import leftover, proc_files, ring, tallies
from gpudiag.parse.budget import Budget
from gpudiag.parse.formats import rows
from gpudiag.parse.order import dated, finished, placed
from gpudiag.parse.parsed import Parsed, Row

__all__ = ["Parsed", "parse"]

_T = TypeVar("_T")


def parse(inputs: Sequence[Input]) -> Parsed:
    """All rows of all inputs. Never raises for what an input holds; what cannot be read becomes ``Damage``."""
    found: list[Row] = []
    looks: list[LookName] = []
    recorders: list[Recorder] = []
    budget = Budget()
    for evidence in inputs:
        start = len(found)
        found += evidence.damage
        found += _commands(evidence, budget)
        found += evidence.coverage
        found += evidence.clocks
        found += proc_files.rows(exhibit for exhibit in evidence.exhibits if proc_files.is_proc_file(exhibit))
        for whole in evidence.exhibits:
            if proc_files.is_proc_file(whole) or ring.is_ring(whole):
                continue
            exhibit, cut_off = budget.readable(whole)
            found += [cut_off] if cut_off is not None else []
            read = budget.take([_as_recorded(row, exhibit) for row in rows(exhibit)], exhibit)
            found += placed((row for row in read if isinstance(row, KillAction)), evidence)
            found += dated((row for row in read if not isinstance(row, KillAction)), evidence)
            found += tallies.rows(exhibit, found[start:])
        recalled = _recalled(evidence, found[start:])
        found += recalled.rows
        looks += (*recalled.looks, *evidence.looks)
        if evidence.recorder is not None:
            recorders.append(replace(evidence.recorder, pids=(*evidence.recorder.pids, *recalled.observers)))
        found[start:] = leftover.capped(found[start:])
    return Parsed(
        looks=tuple(looks),
        samples=_of(found, GpuSample),
        bookings=_of(found, Booking),
        processes=_of(found, Process),
        handles=_of(found, Handle),
        actions=finished(_of(found, KillAction)),
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
        endings=_of(found, Ending),
        printouts=_of(found, Printout),
        recorders=tuple(recorders),
    )


def _recalled(evidence: Input, found: Sequence[Row]) -> ring.Recalled:
    """What a flight recorder's ring in the input adds: last, because the commands tell where to look in it."""
    exhibit = next((exhibit for exhibit in evidence.exhibits if ring.is_ring(exhibit)), None)
    if exhibit is None:
        return ring.NOTHING
    return ring.recall(exhibit, evidence.recorder, _of(found, KillAction))


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
