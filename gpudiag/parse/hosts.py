"""Inputs that name no host are of one host, unless their GPUs say otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from gpudiag.model import Booking, GpuSample, KillAction, Place
from gpudiag.parse.parsed import Parsed


def separate_hosts(parsed: Parsed) -> Parsed:
    """Two inputs without a host name whose GPUs have no UUID in common were taken on two machines.

    The first keeps the empty name; the next ones are called by their input. A PID of one must never be looked up in
    the process table of the other.
    """
    names = _names(_uuids([*parsed.samples, *parsed.bookings]))
    if not any(names.values()):
        return parsed
    changed = {field.name: tuple(_moved(row, names) for row in getattr(parsed, field.name)) for field in fields(parsed)}
    changed["looks"] = tuple(
        replace(look, host=names.get(look.id.partition(":")[0], "")) if not look.host else look for look in parsed.looks
    )
    return replace(parsed, **changed)


def _uuids(rows: Iterable[GpuSample | Booking]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in rows:
        if not row.at.host and row.gpu.uuid is not None:
            found.setdefault(row.cited.input, set()).add(row.gpu.uuid)
    return found


def _names(uuids: dict[str, set[str]]) -> dict[str, str]:
    """Input to host name; inputs that share a UUID share the name of the first of them."""
    machines: list[tuple[str, set[str]]] = []
    names: dict[str, str] = {}
    for input_id, own in uuids.items():
        machine = next((known for known in machines if known[1] & own), None)
        if machine is None:
            machine = (f"input-{input_id}" if machines else "", set[str]())
            machines.append(machine)
        machine[1].update(own)
        names[input_id] = machine[0]
    return names


def _moved(row: Any, names: dict[str, str]) -> Any:
    """The row on the host of its input; a row that already names a host stays."""
    cited = getattr(row, "cited", None)
    host = names.get(cited.input) if cited is not None else None
    if not host:
        return row
    place = getattr(row, "at", None)
    if isinstance(place, Place) and not place.host:
        return replace(row, at=replace(place, host=host))
    return replace(row, host=host) if isinstance(row, KillAction) and not row.host else row
