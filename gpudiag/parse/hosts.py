"""Inputs that name no host are of one host, and looks under one name are at one, unless their GPUs say otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from gpudiag.model import Booking, GpuName, GpuSample, KillAction, Place
from gpudiag.parse.parsed import Parsed

_Numbers = dict[tuple[int, str], set[str]]


def separate_hosts(parsed: Parsed) -> Parsed:
    """Two inputs without a host name whose GPUs have no UUID in common were taken on two machines.

    The first keeps the empty name; the next ones are called by their input. A PID of one must never be looked up in
    the process table of the other. The same holds for two looks, under one host's name or under none, that call
    different GPUs by the same number: the second was taken in another place (a container with a GPU of its own, a
    machine behind a script), which is called by its look.
    """
    parsed = _inputs_apart(parsed)
    return _looks_apart(parsed, _renamed(parsed))


def _inputs_apart(parsed: Parsed) -> Parsed:
    names = _names(_uuids([*parsed.samples, *parsed.bookings]))
    if not any(names.values()):
        return parsed
    changed = {field.name: tuple(_moved(row, names) for row in getattr(parsed, field.name)) for field in fields(parsed)}
    changed["looks"] = tuple(
        replace(look, host=names.get(look.id.partition(":")[0], "")) if not look.host else look for look in parsed.looks
    )
    return replace(parsed, **changed)


def _renamed(parsed: Parsed) -> dict[str, str]:
    """Look to host name, where it is not the look's own."""
    numbered = _numbered([*parsed.samples, *parsed.bookings, *parsed.gpu_names])
    machines: dict[str, list[tuple[str, _Numbers]]] = {}
    names: dict[str, str] = {}
    for look in parsed.looks:
        own = numbered.get(look.id, {})
        known = machines.setdefault(look.host, [(look.host, _Numbers())])
        fitting = (one for one in reversed(known) if not _contradict(one[1], own))
        machine = next(fitting, (", ".join(filter(None, (look.host, look.name))), _Numbers()))
        for number, gpus in own.items():
            machine[1].setdefault(number, set()).update(gpus)
        # A look without any such name is at the place of the look before it.
        known[:] = [one for one in known if one is not machine] + [machine]
        if machine[0] != look.host:
            names[look.id] = machine[0]
    return names


def _numbered(rows: Iterable[GpuSample | Booking | GpuName]) -> dict[str, _Numbers]:
    """What each look calls its GPUs: number and kind of name to the names."""
    found: dict[str, _Numbers] = {}
    for row in rows:
        if row.at.look is None or row.gpu.index is None:
            continue
        own = found.setdefault(row.at.look, {})
        for kind, name in (("uuid", row.gpu.uuid), ("bus", row.gpu.bus_id)):
            if name is not None:
                own.setdefault((row.gpu.index, kind), set()).add(name)
    return {look: own for look, own in found.items() if own}


def _contradict(one: _Numbers, other: _Numbers) -> bool:
    """They call different GPUs by one number."""
    return any(other[number].isdisjoint(gpus) for number, gpus in one.items() if number in other)


def _looks_apart(parsed: Parsed, names: dict[str, str]) -> Parsed:
    if not names:
        return parsed
    before: dict[tuple[str | None, str], str] = {}
    current: dict[str, str] = {}
    for look in parsed.looks:
        current.setdefault(look.host, look.host)
        current[look.host] = names.get(look.id, look.host)
        before.update({(look.id, host): name for host, name in current.items()})
    changed = {
        field.name: tuple(_placed(row, names) for row in getattr(parsed, field.name)) for field in fields(parsed)
    }
    changed["looks"] = tuple(replace(look, host=names.get(look.id, look.host)) for look in parsed.looks)
    changed["actions"] = tuple(
        replace(action, host=before.get((action.after_look, action.host), action.host)) for action in parsed.actions
    )
    return replace(parsed, **changed)


def _placed(row: Any, names: dict[str, str]) -> Any:
    """The row on the host of its look."""
    place = getattr(row, "at", None)
    if not isinstance(place, Place) or place.look not in names:
        return row
    return replace(row, at=replace(place, host=names[place.look]))


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
