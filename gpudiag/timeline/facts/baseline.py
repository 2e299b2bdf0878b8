"""Whether a GPU has more in use than an idle one."""

from __future__ import annotations

from gpudiag.timeline.daemons import is_daemon
from gpudiag.timeline.ledger import Ledger
from gpudiag.timeline.samples import IDLE_MIB


def above_baseline(ledger: Ledger) -> bool:
    """More is in use than an idle GPU shows: a job is booked, or the figure is above the idle level."""
    idle = IDLE_MIB if ledger.figure.net else 2 * IDLE_MIB
    jobs = sum(entry.mib for entry in ledger.entries if entry.life is not None and not is_daemon(entry.life))
    return jobs > 0 or ledger.figure.used_mib > idle
