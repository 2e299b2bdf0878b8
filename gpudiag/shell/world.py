"""What a kill step is replayed against: the recorded processes, and who gave the command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpudiag.shell.keepers import ControlGroups


@dataclass(frozen=True)
class Candidate:
    """A process as far as one or several sources show it. ``None`` is unknown in every field."""

    pid: int
    ppid: int | None = None
    pgid: int | None = None
    sid: int | None = None
    uid: int | None = None
    user: str | None = None
    comm: str | None = None
    """At most 15 bytes."""
    comm_cut: bool = False
    """``comm`` may be a prefix only, cut by the tool that printed it."""
    cmdline: str | None = None
    """Arguments joined by one space; ``""`` for a zombie or a kernel thread."""
    cmdline_cut: bool = False
    """``cmdline`` may be a prefix only."""
    state: str | None = None
    """First letter of the state; Z is a zombie (or a leader whose other threads live)."""
    start: float | None = None
    """Start time in any unit that sorts."""
    kernel_thread: bool | None = None
    text_from: str = "proc"
    """``proc``, ``ps``, ``nvidia-smi`` (a path or a title, rarely the whole command line) or ``fuser``."""
    sig_caught: int | None = None
    sig_ignored: int | None = None
    sig_blocked: int | None = None
    start_ticks: int | None = None
    """Start time as ``/proc/PID/stat`` has it."""


@dataclass(frozen=True)
class Printed:
    """A text of nvidia-smi, recorded whole."""

    columns: tuple[str, ...]
    """Names of its columns; empty for the table."""
    lines: tuple[str, ...]


@dataclass(frozen=True)
class World:
    """The processes of one host at one time."""

    processes: tuple[Candidate, ...]
    complete: bool | None
    """The table lists every process of the host."""
    open_devices: Mapping[int, frozenset[str]] | None = None
    """PID to the device files it has open or mapped; a missing PID was not looked into, ``None``: nobody was."""
    compute_pids: frozenset[int] | None = None
    """PIDs that nvidia-smi's compute list shows; ``None`` if that was not recorded."""
    libc: str | None = None
    """C library of the host, ``glibc 2.36`` or ``musl 1.2.4``: it reads the patterns. ``None`` is not recorded, and
    most likely glibc."""
    printed_lists: Mapping[str, frozenset[int]] = field(default_factory=dict[str, "frozenset[int]"])
    """PIDs that a command printed, by the command's text, where that is known from elsewhere (a PID file)."""
    keepers: ControlGroups | None = None
    """Units, containers and jobs; ``None``: whom their stops reach is not worked out."""
    boot_id: str | None = None
    """As in ``/proc/sys/kernel/random/boot_id``."""
    printouts: Mapping[str, Printed] = field(default_factory=dict[str, Printed])
    """What nvidia-smi printed: ``table``, ``pmon``, ``compute-apps``."""


@dataclass(frozen=True)
class Caller:
    """Who gave the line."""

    user: str | None
    uid: int | None

    @property
    def is_root(self) -> bool | None:
        """``None`` if neither the name nor the number is known."""
        if self.uid is not None:
            return self.uid == 0
        return None if self.user is None else self.user == "root"
