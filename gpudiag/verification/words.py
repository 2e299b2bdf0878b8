"""What a person reads of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpudiag.collect.present import ALIVE, GONE, LEAVING, RECYCLED, UNKNOWN
from gpudiag.report.escape import visible
from gpudiag.report.text import pid_set
from gpudiag.verification.judge import BACK, HELD, RELEASING, UNCLEAR, GpuState, Result

_HEAD = {
    BACK: "The memory is back.",
    HELD: "Memory is still held.",
    RELEASING: "The memory is still being released: wait.",
    UNCLEAR: "It cannot be told whether the memory is back.",
}
_HEAD_FREE = {**_HEAD, BACK: "The GPUs are free.", HELD: "A GPU is in use."}
_PRESENCE = {
    GONE: "gone",
    ALIVE: "still there, the same process",
    LEAVING: "on its way out",
    RECYCLED: "gone; the PID is another process's by now, so do not kill it",
    UNKNOWN: "cannot be told: /proc does not show whether this is the same process",
}


def render(result: Result) -> str:
    """Plain text: the verdict, then every process and GPU."""
    free = all(gpu.goal is None for gpu in result.gpus) and not result.targets
    lines = [(_HEAD_FREE if free else _HEAD)[result.state]]
    if result.because:
        lines.append(f"  {visible(result.because)}")
    lines += [f"  {item.target.pid} {visible(item.target.name)}: {_PRESENCE[item.presence]}" for item in result.targets]
    lines += [f"  {gpu.label}: {', '.join(_gpu(gpu))}" for gpu in result.gpus]
    return "\n".join(lines) + "\n"


def _gpu(gpu: GpuState) -> Iterator[str]:
    if gpu.used_mib is None:
        yield f"cannot be told: {visible(gpu.because or 'no figure')}"
        return
    yield f"{gpu.used_mib:,.0f} MiB in use"
    if gpu.goal is not None and gpu.came_back_mib is not None:
        if gpu.goal.frees_mib:
            yield f"{min(gpu.came_back_mib, gpu.goal.frees_mib):,.0f} of {gpu.goal.frees_mib:,.0f} MiB came back"
        else:
            yield "nothing was to come back"
    if gpu.others:
        yield f"taken since by {_shares(gpu.others)}"
    if gpu.holders:
        yield f"used by {_shares(gpu.holders)}"
    elif gpu.goal is None and gpu.state in (HELD, RELEASING):
        yield "and no process is listed for it"


def _shares(by_pid: Mapping[int, float]) -> str:
    if len(by_pid) > 4:
        return f"{pid_set(by_pid)} ({sum(by_pid.values()):,.0f} MiB)"
    return ", ".join(f"{pid} ({size:,.0f} MiB)" if size else str(pid) for pid, size in sorted(by_pid.items()))
