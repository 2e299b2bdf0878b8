"""Columns about who keeps a process alive as it is meant to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpudiag.model import Citation
from gpudiag.timeline.custody import Custody, custody_of, ended_client, is_told
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life

POOLS = frozenset({"ray", "notebook", "sidecar"})


def custody_columns(
    incident: Incident, life: Life, found: Custody | None, servers: Mapping[str, Sequence[Life]]
) -> dict[str, object]:
    """Columns of one process. ``servers``: ``mps_servers`` of the incident."""
    mps = servers.get(life.host, ())
    pooled = found is not None and found.kind in POOLS
    told = found is not None or is_told(incident, life)
    client = ended_client(incident, found) if found is not None else None
    return {
        "in_pool": pooled if told else None,
        "in_service": found is not None and not pooled if told else None,
        "kept_by": found.kind if found is not None else None,
        "kept_as": found.name if found is not None else None,
        "keeper_alive": found.runs if found is not None else None,
        "client_ended": client is not None if found is not None and incident.actions else None,
        "client_pid": client.pid if client is not None else None,
        "mps_client": _is_mps_client(incident, life, mps),
        "mps_server_pid": mps[0].pid if len(mps) == 1 else None,
    }


def custody_citations(found: Custody | None) -> tuple[Citation, ...]:
    """What shows the keeper."""
    return found.cites if found is not None else ()


def keeper_of(incident: Incident, life: Life) -> Custody | None:
    """As ``custody_of``, for a process that the newest look does not show dead."""
    return custody_of(incident, life) if incident.alive(life) is not False else None


def mps_servers(incident: Incident) -> dict[str, list[Life]]:
    """The living servers of the multi-process service, by host."""
    found: dict[str, list[Life]] = {}
    for life in incident.census.lives:
        if _is_mps_server(life) and incident.alive(life) is True:
            found.setdefault(life.host, []).append(life)
    return found


def _is_mps_client(incident: Incident, life: Life, servers: Sequence[Life]) -> bool | None:
    """The driver lists it as a client of the multi-process service (``M+C``); lists that print no type do not tell."""
    look = incident.newest(life.host)
    seen = life.sightings.get(look.id) if look is not None else None
    kinds = {row.kind for _, row in seen.bookings} if seen is not None else set[str]()
    if "mps" in kinds:
        return True
    # A list that prints no type calls a client compute as well, which matters only where there is such a service.
    return False if kinds & {"compute", "both"} and not servers else None


def _is_mps_server(life: Life) -> bool:
    shown = (life.cmdline or life.booked_name or "").split(" ", 1)[0].rsplit("/", 1)[-1]
    return shown == "nvidia-cuda-mps-server"
