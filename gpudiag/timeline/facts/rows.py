"""Turns plain rows into a fact table with exactly the documented columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from gpudiag.timeline.facts.schema import TABLES
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import UNKNOWN_GPU, Life

Row = Mapping[str, object]


def frame(table: str, rows: Iterable[Row]) -> pl.DataFrame:
    """A fact table. A key that the schema does not know is a programming error; a missing one is null."""
    schema = TABLES[table].polars_schema()
    filled: list[dict[str, object]] = []
    for row in rows:
        unknown = set(row) - set(schema)
        if unknown:
            raise KeyError(f"{table} has no column {', '.join(sorted(unknown))}")
        filled.append({name: row.get(name) for name in schema})
    return pl.DataFrame(filled, schema=schema, orient="row")


def about(incident: Incident, life: Life) -> dict[str, object]:
    """The columns that every row about a process has."""
    family = incident.family_of(life)
    booked = incident.booked_now(life)
    inherited = incident.inherits_from(life)
    gpus = sorted(set(booked) - {UNKNOWN_GPU}) or (
        sorted(set(incident.inherited_mib(inherited)) - {UNKNOWN_GPU}) if inherited is not None else []
    )
    look = incident.newest(life.host)
    seen = life.sightings.get(look.id) if look is not None else None
    target = incident.aims.targets
    owners = {f.user for f in incident.families if f.id in target and f.user is not None}
    user = life.string("user")
    return {
        "host": incident.host_id(life.host),
        "family": family.id if family is not None else None,
        "process": incident.process_id(life),
        "pid": life.pid,
        "name": life.title,
        "gpus": gpus,
        "role": family.role(life) if family is not None else None,
        "holds_mib": incident.holds_now(life),
        "listed": bool(seen.bookings) if seen is not None and incident.list_seen(life.host) else None,
        "device_untold": look is not None and incident.device_untold(look),
        "alive_now": incident.alive(life),
        "state": seen.first("state") if seen is not None else None,
        "target_family": incident.aims.is_target(family),
        "aimed": incident.aims.is_aimed(life) if incident.actions else None,
        "same_owner": None if user is None or not owners else user in owners,
    }
