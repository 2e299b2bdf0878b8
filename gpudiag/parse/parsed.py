"""What parsing gives to the timeline: rows of the model, in the order in which they were read."""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.evidence.exhibit import LookName
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

Row = (
    GpuSample
    | Booking
    | Process
    | Handle
    | KillAction
    | TraceEvent
    | ClockPair
    | Ending
    | LogRole
    | LogEvent
    | KernelEvent
    | HostFact
    | Coverage
    | Damage
    | GpuName
    | Accounted
    | Container
    | Unit
    | Job
    | Pod
    | Listener
    | KernelStack
    | GpuReading
    | Refusal
    | KernelModule
    | PidProbe
    | PidFile
    | Printout
    | Interrupt
    | RefusedWord
    | Inquiry
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
    recorders: tuple[Recorder, ...] = ()
    """At most one an input."""
    gpu_names: tuple[GpuName, ...] = ()
    accounted: tuple[Accounted, ...] = ()
    containers: tuple[Container, ...] = ()
    units: tuple[Unit, ...] = ()
    jobs: tuple[Job, ...] = ()
    pods: tuple[Pod, ...] = ()
    listeners: tuple[Listener, ...] = ()
    stacks: tuple[KernelStack, ...] = ()
    log_events: tuple[LogEvent, ...] = ()
    kernel_events: tuple[KernelEvent, ...] = ()
    readings: tuple[GpuReading, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    modules: tuple[KernelModule, ...] = ()
    probes: tuple[PidProbe, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    pid_files: tuple[PidFile, ...] = ()
    refused_words: tuple[RefusedWord, ...] = ()
    inquiries: tuple[Inquiry, ...] = ()
    printouts: tuple[Printout, ...] = ()
    endings: tuple[Ending, ...] = ()
    """From flight recorders, in the order in which they were noticed."""
