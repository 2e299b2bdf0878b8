"""One look: the sources that together show the state of GPUs and processes at one moment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from gpudiag.collect.child import heard
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Following, Out, Source

_SMI_BYTES = 2 << 20
"""Of nvidia-smi: sixteen GPUs with a thousand processes take less. What prints more is out of its mind."""
PS = "ps -eo pid,ppid,pgid,sid,user:20,stat,lstart,etimes,nlwp,rss,wchan:24,comm,args --cols 4000"
_QUERIES = (("nvidia-smi.txt", "nvidia-smi", None),)
_MORE_QUERIES = (
    (
        "query-apps.csv",
        "nvidia-smi --query-compute-apps=timestamp,gpu_uuid,gpu_bus_id,pid,process_name,used_memory --format=csv",
        "compute processes",
    ),
    (
        "query-gpu.csv",
        "nvidia-smi --query-gpu=timestamp,index,uuid,pci.bus_id,name,driver_version,memory.total,memory.reserved,"
        "memory.used,memory.free,utilization.gpu,persistence_mode,compute_mode,mig.mode.current,accounting.mode "
        "--format=csv",
        "gpu memory",
    ),
    ("q.xml", "nvidia-smi -q -x", None),
)
NVML_MEMBER = "nvml.json"
PROCESSES_MEMBER = "proc.json"
SERIES_MEMBER = "nvml-series.json"
GPU_MEMBERS = (NVML_MEMBER, *(member for member, _, _ in (*_QUERIES, *_MORE_QUERIES)))
"""Sources that ask the driver."""
GPU_DEADLINE_S = 10.0
"""For a source that asks the driver: without persistence mode it starts anew, a second or two for each GPU."""
_TOOL_DEADLINE_S = 5.0
_PROC_DEADLINE_S = 15.0
NVML_FIRST_S = 0.5
"""How long the processes wait for NVML's list of PIDs."""
_TOLD_LATE_S = 1.0
"""The collector has other things to do, too."""
_TOLD_CAP = 3000
"""PIDs; the line must fit into a pipe."""


def first_sources(machine: Machine, gpu_deadline_s: float, then: Following | None = None) -> list[Source]:
    """What is read at once. ``then``: what is asked when the processes of interest are known."""
    return [
        Source("NVML", NVML_MEMBER, gpu_deadline_s, produce=lambda out: _nvml(machine, out), evidence="gpu memory"),
        *_asked(machine, _QUERIES, gpu_deadline_s),
        _tool(PS, "ps-tree.txt", _TOOL_DEADLINE_S, "ps", machine.tool("ps"), "process table"),
        _fuser(machine),
        _process_source(machine, then),
    ]


def more_sources(machine: Machine, gpu_deadline_s: float) -> list[Source]:
    """What NVML tells, too, and faster. Each call of nvidia-smi starts the driver's library anew and waits for the
    others, so a quick look has these where NVML has not answered only.
    """
    return _asked(machine, _MORE_QUERIES, gpu_deadline_s)


def _asked(machine: Machine, queries: Iterable[tuple[str, str, str | None]], gpu_deadline_s: float) -> list[Source]:
    smi = machine.tool("nvidia-smi")
    return [
        _tool(command, member, gpu_deadline_s, "nvidia-smi", smi, evidence) for member, command, evidence in queries
    ]


def _process_source(machine: Machine, then: Following | None) -> Source:
    """It looks at everybody at once, and then waits to be told (``told``) what only the collector knows."""
    return Source(
        "processes",
        PROCESSES_MEMBER,
        _PROC_DEADLINE_S,
        produce=lambda out: _processes(machine, out),
        evidence="open handles",
        listens=True,
        then=then,
    )


def told(own: Iterable[int], booked: Iterable[int]) -> str:
    """The line for the source of the processes. ``own``: the collector's. ``booked``: PIDs in NVML's lists; it knows
    some that no descriptor shows.
    """
    import json

    return json.dumps([list(own)[:_TOLD_CAP], list(booked)[:_TOLD_CAP]])


# What a child does is imported in the child: there it costs nobody else time.


def _nvml(machine: Machine, out: Out) -> None:
    from gpudiag.collect import nvml

    nvml.look(machine, out)


def _processes(machine: Machine, out: Out) -> None:
    from gpudiag.collect import processes

    processes.produce(machine, out, _told)


def _told() -> tuple[Sequence[int], Sequence[int]]:
    import json

    line = heard(NVML_FIRST_S + _TOLD_LATE_S)
    own, booked = json.loads(line) if line else ((), ())
    return (*own, os.getpid(), os.getppid()), booked


def series_source(machine: Machine, duration_s: float, every_s: float) -> Source:
    """Device memory over time; ``duration_s`` from its start."""
    return Source(
        "memory over time",
        SERIES_MEMBER,
        duration_s + 2,
        produce=lambda out: _series(machine, out, duration_s, every_s),
    )


def _series(machine: Machine, out: Out, duration_s: float, every_s: float) -> None:
    from gpudiag.collect import nvml

    nvml.series(machine, out, duration_s, every_s)


def _tool(command: str, member: str, deadline_s: float, name: str, path: str | None, evidence: str | None) -> Source:
    words = command.split()
    return Source(
        command if len(command) < 30 else " ".join(words[:2]).partition("=")[0],
        member,
        deadline_s,
        argv=(path or name, *words[1:]),
        command=command,
        evidence=evidence,
        absent=None if path is not None else f"{name} is not installed",
        most=_SMI_BYTES if name == "nvidia-smi" else None,
    )


def _fuser(machine: Machine) -> Source:
    path = machine.tool("fuser")
    files = device_files(machine.dev)
    absent = "fuser is not installed" if path is None else None if files else f"there is no {machine.dev}/nvidia*"
    return Source(
        "fuser",
        "fuser.txt",
        _PROC_DEADLINE_S,
        argv=(path or "fuser", "-v", *files),
        command="fuser -v /dev/nvidia* 2>&1",
        evidence="open handles",
        absent=absent,
    )


def device_files(folder: str) -> Sequence[str]:
    """What a shell makes of ``/dev/nvidia*``, folders left out."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if entry.name.startswith("nvidia") and not entry.is_dir()]
    except OSError:
        return ()
    return tuple(sorted(found))
