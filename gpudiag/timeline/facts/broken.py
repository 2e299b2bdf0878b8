"""Whether the GPU context of a living process is dead."""

from __future__ import annotations

from gpudiag.model import Citation, KernelEvent
from gpudiag.timeline.facts.kernel import CONTEXT_XIDS, events_about, events_of, log_read
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life

_XID = frozenset({"xid"})


def broken_citations(incident: Incident, life: Life) -> list[Citation]:
    """The last messages that show it."""
    return [event.cited for event in _own(incident, life)][-2:]


def _own(incident: Incident, life: Life) -> list[KernelEvent]:
    return [event for event in events_about(incident, life, _XID) if event.xid in CONTEXT_XIDS]


def broken_columns(incident: Incident, life: Life) -> dict[str, object]:
    """Columns of one process; null where nobody read the kernel's log."""
    own = _own(incident, life)
    sleeps = events_of(incident, life.host, "suspend")
    known = bool(own) or log_read(incident, life.host)
    return {
        "context_xids": list(dict.fromkeys(str(event.xid) for event in own)) if known else None,
        "context_fault": own[-1].text if own else None,
        "machine_slept": (sleeps[-1].stamp or sleeps[-1].text) if sleeps else None,
    }
