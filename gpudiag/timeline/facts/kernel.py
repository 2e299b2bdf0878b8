"""What the kernel's log says about one process or one host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudiag.model import Citation, KernelEvent
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life

CONTEXT_XIDS = frozenset({13, 31, 32, 43, 68, 69, 94})
"""Faults of one process's own work: the driver stops its channels, and all is over when the process ends."""
RESET_XIDS = frozenset({62, 79, 95, 109, 119, 120, 140})
"""Faults after which the GPU works again only after a reset or a reboot (NVIDIA's list of Xid errors)."""
RECOVERY_XID = 154
"""The driver names the recovery that it wants; the text after ``to`` says which."""
_COMM_BYTES = 15
_OOM = frozenset({"oom", "cgroup_oom"})


def events_of(incident: Incident, host: str, *kinds: str) -> Sequence[KernelEvent]:
    """Kernel messages of these kinds on a host; those of a log that names no host belong to the only one."""
    alone = len(incident.hosts()) == 1
    events = (event for kind in kinds for event in incident.kernel_events(kind=kind))
    return [event for event in events if event.host == host or (alone and not event.host)]


def log_read(incident: Incident, host: str, *, whole: bool = False) -> bool:
    """Somebody read the kernel's log without a filter that takes the driver's messages out; ``whole``: any filter."""
    rows = [c for c in incident.parsed.coverage if c.source == "kernel log" and c.outcome == "ok"]
    alone = len(incident.hosts()) == 1
    own = [row for row in rows if row.at.host == host or (alone and not row.at.host)]
    return any(row.complete is True if whole else row.complete is not False for row in own)


def events_about(incident: Incident, life: Life, kinds: frozenset[str]) -> Iterator[KernelEvent]:
    """Messages that name this process: its PID, no other name, and not from before its start."""
    for event in incident.kernel_events(pid=life.pid):
        own = event.host == life.host or (not event.host and len(incident.hosts()) == 1)
        if own and event.kind in kinds and _same_name(event, life) and not _earlier(event, life):
            yield event


def killed_by_kernel(incident: Incident, life: Life) -> list[Citation]:
    """Messages that the kernel itself sent SIGKILL to it, because memory of the host or of its cgroup ran out."""
    return [event.cited for event in events_about(incident, life, _OOM)]


def _same_name(event: KernelEvent, life: Life) -> bool:
    """Both cut names to 15 bytes; a title may have replaced the name that the kernel printed."""
    shown = [name for name in (life.comm, life.program, life.booked_name) if name]
    names = {name.rsplit("/", 1)[-1][:_COMM_BYTES] for name in shown}
    if event.comm is None or not names:
        return True
    own = event.comm[:_COMM_BYTES]
    return any(name.startswith(own) or own.startswith(name) for name in names)


def _earlier(event: KernelEvent, life: Life) -> bool:
    if event.time_ns is None or life.start_ns is None:
        return False
    return event.time_ns + event.time_error_ns < life.start_ns - life.start_error_ns
