"""What the tools do and do not report about one GPU here: its load, and words in place of memory figures."""

from __future__ import annotations

import re

from gpudiag.model import Citation, GpuReading
from gpudiag.timeline.gpus import Gpu
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import UNKNOWN_GPU, Life, Sighting

_VIRTUAL = re.compile(r"\bGRID\b|\bvGPU\b|-\d{1,3}[QCABqcab]\b")
_UNIFIED = re.compile(r"\b(?:GB10|Thor|Orin|Xavier|Tegra)\b", re.IGNORECASE)
_VIEWS = {
    "wsl": "under WSL2, where Windows owns the GPU",
    "wddm": "under Windows' driver model",
    "vgpu": "on a virtual GPU, which shows its own share only",
    "mig": "on a GPU that is divided into MIG devices",
    "unified": "on a machine whose GPU shares the CPU's memory",
}


def told_columns(incident: Incident, gpu: Gpu, figure: Citation | None = None) -> dict[str, object]:
    """Columns of one GPU, with the citations of the row."""
    readings = _readings(incident, gpu)
    loads = [row for row in readings if row.field == "utilization.gpu" and row.value is not None]
    words = [row for row in readings if row.field.startswith("memory.") and row.words is not None]
    sized, unsized = _listed(incident, gpu)
    withheld = [*(row.words or "" for row in words), *unsized]
    cites = [*([figure] if figure is not None else []), *(row.cited for row in (*words[:2], *loads[-1:]))]
    return {
        "utilisation_pct": loads[-1].value if loads else None,
        "unreported": _unreported(figure is not None, bool(words), sized, bool(unsized)),
        "unreported_words": ", ".join(dict.fromkeys(withheld)) if withheld else None,
        "seen_from": _seen_from(incident, gpu, withheld),
        "cites": incident.citations.add_all(cites),
    }


def _readings(incident: Incident, gpu: Gpu) -> list[GpuReading]:
    """Of the looks after the last command that changed anything."""
    last = incident.last_effect(gpu.host)
    later = {look.id for look in incident.looks if last is None or look.position > last.slot}
    rows = [row for row in incident.parsed.readings if row.at.host == gpu.host and row.at.look in later]
    return [row for row in rows if incident.gpus.of(row.at.host, row.gpu) is gpu]


def _listed(incident: Incident, gpu: Gpu) -> tuple[bool, list[str]]:
    """Whether a listed process has a size, and the words in place of sizes."""
    sized, words = False, list[str]()
    for life in incident.census.lives:
        seen = _seen_now(incident, life)
        if seen is None or life.host != gpu.host:
            continue
        rows = [row for own, row in seen.bookings if own in (gpu.id, UNKNOWN_GPU)]
        if any(row.mib is not None for row in rows):
            sized = True
        else:
            words += [row.withheld for row in rows if row.withheld is not None]
    return sized, words


def _seen_now(incident: Incident, life: Life) -> Sighting | None:
    look = incident.newest(life.host)
    return life.sightings.get(look.id) if look is not None else None


def _unreported(figure: bool, no_figure: bool, sized: bool, unsized: bool) -> bool | None:
    """A size stands nowhere that would tell whose memory it is; ``None`` where nobody asked."""
    if unsized or (no_figure and not figure and not sized):
        return True
    return False if figure or sized else None


def _seen_from(incident: Incident, gpu: Gpu, withheld: list[str]) -> str | None:
    """Which known limit of the view explains that, in words."""
    versions: dict[str, str] = {}
    for fact in incident.parsed.facts:
        if fact.at.host == gpu.host:
            versions[fact.name] = fact.value
    tool, driver = versions.get("nvidia_smi_version"), versions.get("driver_version")
    if any("WDDM" in words for words in withheld):
        return _VIEWS["wddm"]
    if tool is not None and driver is not None and tool != driver:
        return _VIEWS["wsl"]
    if _VIRTUAL.search(gpu.name or ""):
        return _VIEWS["vgpu"]
    if _UNIFIED.search(gpu.name or ""):
        return _VIEWS["unified"]
    divided = any(row.mig_uuids for row in incident.parsed.gpu_names if incident.gpus.of(row.at.host, row.gpu) is gpu)
    return _VIEWS["mig"] if divided else None
