"""One call from a bundle (or none) to whether the memory is back, on the machine that it was taken on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpudiag.collect.identity import own
from gpudiag.collect.machine import Machine
from gpudiag.collect.present import GpuNow, Sample, Watch, presence, started_s
from gpudiag.evidence import Unreadable
from gpudiag.evidence.standard_input import SIGN
from gpudiag.explain import explain_fully
from gpudiag.report.contract import Report
from gpudiag.verification.goals import Goals, goals_of
from gpudiag.verification.judge import BACK, HELD, UNCLEAR, Result, compare, free

EVERY_S = 0.1
"""Between two samples."""
FIRST_S = 15.0
"""For the first one: without persistence mode the driver starts anew, a second or two for each GPU."""
SETTLING_S = 1.0
"""So long what looks held is watched, also without ``--wait``: it may be on its way back."""
_INSTEAD = "name a bundle that gpudiag collect wrote here, or none, to wait for idle GPUs"
_SILENCE_S = 10.0
"""An NVML call blocks for seconds while memory is unpinned; longer, and the driver does not answer."""


def verify(bundle: Path | None, gpus: Sequence[str], wait_s: float, machine: Machine | None = None) -> Result:
    """Compare with the plan of a bundle, or ask whether GPUs are free; ``Unreadable`` as for ``explain``.

    ``gpus``: indices or UUIDs, when there is no bundle; empty: all. It returns as soon as the memory is back.
    """
    here = machine or Machine()
    if bundle is None:
        return _watched(here, wait_s, lambda now, earlier: free(now, earlier, _wanted(gpus)))
    goals = _goals(bundle, here)
    if isinstance(goals, str):
        return Result(UNCLEAR, because=goals)

    def judge(now: Sample, earlier: Sample) -> Result:
        return compare(
            goals,
            now,
            earlier,
            lambda target: presence(target.pid, target.start_ticks, here),
            lambda pid: started_s(pid, here),
        )

    return _watched(here, wait_s, judge)


def _goals(bundle: Path, machine: Machine) -> Goals | str:
    """Or the sentence that says why this machine cannot answer."""
    if bundle != SIGN and not bundle.exists():
        raise Unreadable(f"{bundle} does not exist; name a bundle that gpudiag collect wrote on this machine, or none.")
    explained = explain_fully([bundle])
    report, recorders = explained.report, explained.incident.parsed.recorders
    here = own(machine.proc)
    if len(report.hosts) > 1:
        return "the input speaks of several machines; verify one bundle on the machine that it was taken on"
    if not recorders or recorders[-1].boot_id is None:
        return _of_nowhere(report)
    if here.boot_id is None:
        return f"this machine does not tell its boot, so nothing says that it is that of the bundle; {_INSTEAD}"
    if recorders[-1].boot_id != here.boot_id:
        return "the bundle is from another machine, or this one was started anew since: its PIDs mean nothing here"
    if recorders[-1].pid_namespace is None or recorders[-1].pid_namespace != here.pid_namespace:
        return "the bundle was taken in another PID namespace (container or host): verify where it was collected"
    goals = goals_of(report)
    if report.outcome == "inconclusive" and not goals.targets and not any(gpu.frees_mib for gpu in goals.gpus):
        return (
            "the bundle names nothing that should have gone or come back; without a bundle, verify waits for idle GPUs"
        )
    return goals


def _of_nowhere(report: Report) -> str:
    """Why PIDs of this input mean nothing here, by what it is."""
    kind = report.inputs[0].kind
    what = "the bundle does not say" if kind == "bundle" else f"this is a {kind}, which does not say"
    return f"{what} on which boot of which machine it was taken; {_INSTEAD}"


def _wanted(names: Sequence[str]) -> Callable[[GpuNow], bool]:
    return lambda gpu: not names or str(gpu.number) in names or gpu.uuid in names


def _watched(machine: Machine, wait_s: float, judge: Callable[[Sample, Sample], Result]) -> Result:
    """Judge sample by sample until the memory is back or the time is over."""
    watch = Watch(machine, math.ceil(FIRST_S + wait_s + SETTLING_S + _SILENCE_S), EVERY_S)
    try:
        now = watch.next(FIRST_S)
        if now is None:
            return Result(UNCLEAR, because=watch.because or f"the driver does not answer within {FIRST_S:g} s")
        begun = time.monotonic()
        samples, result = [now], judge(now, now)
        while not _over(result, time.monotonic() - begun, wait_s):
            now = watch.next(_SILENCE_S)
            if now is None:
                return Result(UNCLEAR, result.targets, because=watch.because or "the driver does not answer any more")
            samples = [item for item in (*samples, now) if now.time_s - item.time_s <= SETTLING_S]
            result = judge(now, samples[0])
        return result
    finally:
        watch.close()


def _over(result: Result, seconds: float, wait_s: float) -> bool:
    if result.state == BACK:
        return True
    if seconds < wait_s:
        return False
    # Held memory without a living process of the plan may be falling: that takes two samples.
    undecided = result.state == HELD and any(gpu.state == HELD for gpu in result.gpus)
    return not undecided or seconds >= SETTLING_S
