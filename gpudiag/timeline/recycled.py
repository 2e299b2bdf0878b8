"""Numbers that were given out again: the process that served under one, and the stranger that has it now.

The kernel gives no number out again while it is still the process group or the session of somebody (measured): what the
dead one started has left both, or is dead.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpudiag.timeline.kinship import Kinship
from gpudiag.timeline.lives import Census, Life


def served(life: Life, census: Census, kinship: Kinship) -> bool:
    """It, or a process that it started, held device memory or had a device mapped."""
    started = [other for other in census.lives if kinship.parent(other) is life]
    return any(one.used_devices for one in (life, *started))


def strangers(lives: Sequence[Life], census: Census, kinship: Kinship) -> dict[Life, Life]:
    """Those among them that use no device and have the number of one that served before, with that one."""
    newer = [life for life in lives if life.generation > 0 and not served(life, census, kinship)]
    before = {
        life: [one for one in census.named(life.host, life.pid) if one.generation < life.generation] for life in newer
    }
    pairs = {life: next((one for one in before[life] if served(one, census, kinship)), None) for life in newer}
    return {life: was for life, was in pairs.items() if was is not None}
