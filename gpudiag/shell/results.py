"""What a replay says about each step and each process that carries the line."""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.shell.lines import Carrier, Step
from gpudiag.shell.selection import Selection
from gpudiag.shell.tools.stops import Stop


@dataclass(frozen=True)
class StepReplay:
    """One step: what it would hit, and whether it ran."""

    step: Step
    tool: str | None
    """``pkill``, ``killall``, ``kill`` or ``fuser``; ``None`` for a step that kills nothing."""
    signal: int | None
    selection: Selection | None
    ran: bool | None
    ran_proven: bool
    """``ran`` follows from what was observed, not only from the rules of the shell."""
    ran_because: str
    list_from: str | None
    """Program that supplied the PIDs: ``nvidia-smi``, ``pgrep`` …"""
    exit_code: int | None
    """As recorded where an ``echo $?`` or the line's own exit code shows it, else predicted."""
    stop: Stop | None = None
    """What the step has another program stop; whom that ends is not known from the process table."""


@dataclass(frozen=True)
class CarrierReplay:
    """One killing step against one process that carries the line."""

    carrier: Carrier
    step: int
    matches: bool | None
    execs: bool | None
    """The shell replaces itself by the step's program, so that there is nothing left to hit."""
    signal_fatal: bool | None
    later_steps: tuple[int, ...]
    death_seen: bool | None
    death_how: str | None
    because: str
