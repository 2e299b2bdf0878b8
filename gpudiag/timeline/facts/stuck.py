"""Processes that a signal does not end because they are inside the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import KernelEvent
from gpudiag.timeline.facts.dying import slept_s
from gpudiag.timeline.facts.holder import kill_age, within_expected
from gpudiag.timeline.facts.kernel import events_about, events_of, log_read
from gpudiag.timeline.facts.rows import Row, about
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import SIGKILL_BIT, Life, Sighting
from gpudiag.timeline.samples import expected_release_s

_HUNG = frozenset({"hung_task"})
_FRAMES = frozenset({"driver_frame"})
_OFFSET = re.compile(r"\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}")
_BLOCKED = re.compile(r"blocked for more than (\d{1,9}) seconds")
_DRIVER_MODULE = re.compile(r"\[nvidia\w{0,40}\]\Z")
_DRIVER_FUNCTION = re.compile(r"(?:_?nv\d{0,6}|nvidia|nvkms|uvm|os_acquire|rm)_")
"""Functions of the driver's modules, as ``wchan`` names them without the module."""
_DRIVER_CLIENT = re.compile(r"nvidia-|nv-hostengine|dcgm|nvtop|gpustat|nvitop")
"""Programs that do nothing but ask the driver."""


def stuck_rows(incident: Incident) -> Iterator[Row]:
    """One row for every process that shows a sign of it in the newest look, or that only the kernel names."""
    stacked = {row.pid for row in incident.parsed.stacks}
    hung = {event.pid for event in incident.kernel_events(kind="hung_task")}
    for life in incident.census.lives:
        look = incident.newest(life.host)
        seen = life.sightings.get(look.id) if look is not None else None
        if seen is None or seen.zombie or incident.present(life) is not True:
            continue
        if life.pid in stacked or life.pid in hung or _may_be_stuck(seen) or incident.kill_delivered(life)[0]:
            row = _row(incident, life, seen)
            if (
                row["sleeps_in_kernel"]
                or row["in_driver"]
                or row["kill_pending"]
                or row["outlived_kill"]
                or row["hung_s"]
            ):
                yield row
    for host in incident.hosts():
        yield from _only_in_log(incident, host)


def _may_be_stuck(seen: Sighting) -> bool:
    """Its own row in the process table shows one of the signs."""
    pending, wchan = seen.first("sig_pending"), seen.first("wchan")
    killed = isinstance(pending, int) and bool(pending & SIGKILL_BIT)
    return seen.first("state") == "D" or killed or (isinstance(wchan, str) and bool(_DRIVER_FUNCTION.match(wchan)))


def _row(incident: Incident, life: Life, seen: Sighting) -> dict[str, object]:
    state, pending = seen.first("state"), seen.first("sig_pending")
    hung = list(events_about(incident, life, _HUNG))
    blocked = [int(match[1]) for event in hung if (match := _BLOCKED.search(event.text))]
    in_driver = _in_driver(incident, life, seen)
    delivered, proof = incident.kill_delivered(life)
    age = kill_age(incident, life) if delivered else None
    return about(incident, life) | {
        "sleeps_in_kernel": state == "D" if isinstance(state, str) else None,
        "in_driver": in_driver,
        "driver_function": _where(incident, life, seen) if in_driver else None,
        "kill_pending": bool(pending & SIGKILL_BIT) if isinstance(pending, int) else None,
        "outlived_kill": True if delivered else None if delivered is None else False,
        "outlived_s": age if age is not None else slept_s(incident, life) if delivered else None,
        "within_expected": within_expected(age, expected_release_s(life.integer("rss_shmem_kib"))),
        "hung_s": max(blocked, default=0 if log_read(incident, life.host, whole=True) else None),
        "uses_driver": _uses_driver(incident, life, seen, in_driver, bool(hung)),
        "cites": incident.citations.add_all([*life.citations(), *proof[:2], *(event.cited for event in hung[:2])]),
    }


def _in_driver(incident: Incident, life: Life, seen: Sighting) -> bool | None:
    """Its stack or its wait channel lies in a module of the GPU driver."""
    frames = _frames(incident, life, seen)
    wchan = seen.first("wchan")
    if any(events_about(incident, life, _FRAMES)):
        return True
    if frames:
        return any(_DRIVER_MODULE.search(frame) for frame in frames)
    return bool(_DRIVER_FUNCTION.match(wchan)) if isinstance(wchan, str) else None


def _frames(incident: Incident, life: Life, seen: Sighting) -> tuple[str, ...]:
    stacks = [row for row in incident.parsed.stacks if row.pid == life.pid and row.at.look == seen.look.id]
    return stacks[-1].frames if stacks else ()


def _where(incident: Incident, life: Life, seen: Sighting) -> str | None:
    frames = _frames(incident, life, seen)
    wchan = seen.first("wchan")
    if not frames and not isinstance(wchan, str):
        return next((_function(event) for event in events_about(incident, life, _FRAMES)), None)
    return frames[0] if frames else wchan if isinstance(wchan, str) else None


def _function(frame: KernelEvent) -> str:
    return _OFFSET.sub("", frame.text)


def _uses_driver(incident: Incident, life: Life, seen: Sighting, in_driver: bool | None, hung: bool) -> bool | None:
    """Something ties it to the GPU driver; a process that waits for a disk is none of this tool's business."""
    if in_driver or seen.bookings or seen.open or incident.holds_now(life):
        return True
    if _DRIVER_CLIENT.match(life.program or ""):
        return True
    held = any(earlier.bookings or earlier.open for earlier in life.sightings.values())
    if held or (hung and events_of(incident, life.host, "xid", "gsp", "uvm", "nvrm")):
        return True
    return False if seen.open is not None else None


def _only_in_log(incident: Incident, host: str) -> Iterator[Row]:
    """A hung task that no process table of the newest look shows, by what the kernel printed of it."""
    look = incident.newest(host)
    shown = {life.pid for life in incident.census.lives if look is not None and look.id in life.sightings}
    told: set[int] = set()
    for event in events_of(incident, host, "hung_task"):
        if event.pid is None or event.pid in shown or event.pid in told:
            continue
        if look is not None and incident.census.sees_everybody(look):
            continue  # it is gone
        told.add(event.pid)
        match = _BLOCKED.search(event.text)
        frame = next((one for one in events_of(incident, host, *_FRAMES) if one.pid == event.pid), None)
        yield {
            "host": incident.host_id(host),
            "pid": event.pid,
            "name": event.comm,
            "gpus": [],
            "hung_s": int(match[1]) if match else None,
            "in_driver": True if frame is not None else None,
            "driver_function": _function(frame) if frame is not None else None,
            "uses_driver": True if frame is not None or _DRIVER_CLIENT.match(event.comm or "") else None,
            "cites": incident.citations.add_all([event.cited, *([frame.cited] if frame is not None else [])]),
        }
