"""Steps of one line that take effect on different hosts: ``ssh a pkill x; ssh b pkill x``."""

from __future__ import annotations

from dataclasses import replace

from gpudiag.model import KillAction
from gpudiag.shell.lines import Line
from gpudiag.shell.replay import StepReplay, tool_of
from gpudiag.shell.tools.stops import stop_of


def is_elsewhere(step: StepReplay, line: Line, action: KillAction, host: str) -> bool:
    """It takes effect on another host than ``host``, the one whose processes were replayed.

    Where all steps that end something are of one host, that is the one.
    """
    killing = (step for step in line.steps if tool_of(step) is not None or stop_of(step.words) is not None)
    told = dict.fromkeys(step.host for step in killing)
    if len(told) < 2:
        return False
    called = action.called if action.source == "transcript" else host if host in told else next(iter(told))
    return step.step.host != called


def without_effect(step: StepReplay) -> StepReplay:
    """The step as one that ends nothing."""
    return replace(step, tool=None, signal=None, selection=None, stop=None)
