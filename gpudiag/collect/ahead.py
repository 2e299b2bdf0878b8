"""A quick look is begun before the rest of the collector is loaded: to load takes as long as the driver to answer.

What is imported here is what its children need, and no more.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpudiag.collect.child import Spawned, spawn
from gpudiag.collect.look import GPU_DEADLINE_S, first_sources
from gpudiag.collect.machine import Machine

_NOT_WITH = ("-h", "--h", "--print-collector")
"""Begin words with which this machine is not looked at, or not soon (``--history``)."""


class Begun(NamedTuple):
    """A source's child, and when it was started."""

    child: Spawned
    wall_ns: int
    monotonic_s: float


NOTHING_BEGUN: Mapping[str, Begun] = {}


def begin(words: Sequence[str]) -> Mapping[str, Begun]:
    """The sources of the first look that are at work now, by member; ``words``: those of ``gpudiag collect``.

    Empty where they want something else first. What cannot be started now is started, or recorded, in its turn.
    """
    if "--quick" not in words or any(word.startswith(_NOT_WITH) for word in words):
        return NOTHING_BEGUN
    begun: dict[str, Begun] = {}
    for source in first_sources(Machine(), GPU_DEADLINE_S):
        if source.absent is not None:
            continue
        wall_ns, monotonic_s = time.time_ns(), time.monotonic()
        try:
            begun[source.member] = Begun(spawn(source), wall_ns, monotonic_s)
        except OSError:
            break
    return begun


def forget(begun: Mapping[str, Begun]) -> None:
    """The look is not going to be. Nobody is waited for: what hangs in the driver does not die of SIGKILL."""
    for child, _, _ in begun.values():
        os.kill(child.pid, signal.SIGKILL)
