"""Small rows for the timeline's own tests."""

from __future__ import annotations

from gpudiag.evidence.exhibit import LookName
from gpudiag.model import Booking, Citation, Coverage, GpuRef, GpuSample, Handle, Place, Process

SECOND = 1_000_000_000
NOW = 1_796_067_600 * SECOND
CITED = Citation("I1", "ps.txt", 1, "a row")


def at(look: str | None, seconds: float = 0) -> Place:
    return Place("box", look, NOW + round(seconds * SECOND))


def process(look: str, pid: int, ppid: int | None = 1, **fields: object) -> Process:
    fields.setdefault("pgid", pid)
    fields.setdefault("text_from", "ps")
    fields.setdefault("state", "S")
    when = fields.pop("seconds", 0)
    assert isinstance(when, (int, float))
    return Process(at(look, when), pid, CITED, ppid=ppid, **fields)  # type: ignore[arg-type]


def table(look: str, *, complete: bool = True) -> Coverage:
    return Coverage(at(look), "process table", "ok", None, CITED, complete=complete)


def booking(
    look: str, pid: int, mib: float | None = 1000, name: str | None = "job", missing: str | None = None
) -> Booking:
    return Booking(at(look), GpuRef(index=0), pid, mib, name, missing, "compute", CITED)


def handle(look: str, pid: int, how: str = "map") -> Handle:
    return Handle(at(look), pid, "/dev/nvidia0", how, CITED)


def sample(
    look: str | None, used: float, *, seconds: float = 0, gross: bool = False, reserved: float | None = None
) -> GpuSample:
    return GpuSample(at(look, seconds), GpuRef(index=0), used, 143771, reserved, gross, "H200", CITED)


def look_names(*names: str) -> tuple[LookName, ...]:
    return tuple(LookName(name, name, "box") for name in names)
