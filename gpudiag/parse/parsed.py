"""What parsing gives to the timeline: rows of the model, in the order in which they were read."""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.evidence.exhibit import LookName
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

Row = (
    GpuSample
    | Booking
    | Process
    | Handle
    | KillAction
    | TraceEvent
    | ClockPair
    | LogRole
    | HostFact
    | Coverage
    | Damage
)


@dataclass(frozen=True)
class Parsed:
    """All rows of all inputs."""

    looks: tuple[LookName, ...]
    samples: tuple[GpuSample, ...]
    bookings: tuple[Booking, ...]
    processes: tuple[Process, ...]
    handles: tuple[Handle, ...]
    actions: tuple[KillAction, ...]
    trace: tuple[TraceEvent, ...]
    clocks: tuple[ClockPair, ...]
    roles: tuple[LogRole, ...]
    facts: tuple[HostFact, ...]
    coverage: tuple[Coverage, ...]
    damage: tuple[Damage, ...]
