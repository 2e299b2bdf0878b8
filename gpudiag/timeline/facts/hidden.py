"""Whether a PID that the driver names can be asked for but not listed."""

from __future__ import annotations

from gpudiag.model import Citation
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life


def hidden_columns(incident: Incident, life: Life) -> dict[str, object]:
    """Columns of one process."""
    return {
        "answers_signal": _probed(incident, life, "signal"),
        "in_process_table": _in_table(incident, life),
    }


def probe_citations(incident: Incident, life: Life) -> list[Citation]:
    """The questions about its PID."""
    return [p.cited for p in incident.parsed.probes if (p.at.host, p.pid) == (life.host, life.pid)][-2:]


def _probed(incident: Incident, life: Life, how: str) -> bool | None:
    """The last answer about its PID after it was first seen."""
    answers = [p.exists for p in incident.parsed.probes if (p.at.host, p.pid, p.how) == (life.host, life.pid, how)]
    return answers[-1] if answers else None


def _in_table(incident: Incident, life: Life) -> bool | None:
    """A process table of the newest look has it; ``False``: the table is whole, or was searched for this PID."""
    look = incident.newest(life.host)
    seen = life.sightings.get(look.id) if look is not None else None
    if look is None:
        return None
    if seen is not None and seen.in_table:
        return True
    if incident.census.sees_everybody(look):
        return False
    return _probed(incident, life, "table")
