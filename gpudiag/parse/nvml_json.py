"""``nvml.json`` and ``nvml-series.json``: memory and process lists straight from NVML, in bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpudiag.evidence.header import instant_ns
from gpudiag.model import Accounted, Booking, GpuName, GpuReading, GpuRef, GpuSample, HostFact, Place
from gpudiag.parse.jsontext import JsonText, elements, integer, items, mapping, number, text_of
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import PID_CAP, gpu_ref

_KINDS = {"Compute": "compute", "Graphics": "graphics", "MPSCompute": "mps"}
_FACTS = ("driver_version", "cuda_version")
_MIB = 2**20
_WORDS_CAP = 300
_MICROSECONDS_CAP = 2**52
"""Far beyond any time that is meant."""
_NVML_NOT_AVAILABLE = 2**64 - 1
"""NVML_VALUE_NOT_AVAILABLE: the driver does not tell the size (WDDM, MIG without rights)."""


def rows(segment: Segment) -> Iterator[Row]:
    """One sample a GPU and time, one booking an entry of a process list."""
    document = JsonText("\n".join(segment.lines))
    if document.problem:
        yield segment.damage(0, document.problem)
    seen = False
    offset = 0
    for moment in elements(document.value):
        record = mapping(moment)
        time = text_of(record.get("t"))
        at = segment.at(None if time is None else instant_ns(time))
        offset = document.find(f'"{time}"', offset)
        for key in _FACTS:
            if value := text_of(record.get(key)):
                yield HostFact(at, key, value, segment.cite_json(document, document.find(f'"{key}"', offset)))
        for gpu in items(record.get("gpus")):
            seen = True
            offset = document.find('"used"', offset)
            yield from gpu_rows(segment, document, at, mapping(gpu), number(record.get("s")), offset)
            offset += 1
    if not seen:
        yield segment.coverage("gpu memory", outcome="not_understood", because="no GPU in the NVML record")
        return
    yield segment.coverage("gpu memory", complete=document.problem is None)
    yield segment.coverage("compute processes", complete=document.problem is None)


def gpu_rows(
    segment: Segment, document: JsonText, at: Place, gpu: Mapping[str, object], busy_s: float | None, offset: int
) -> Iterator[Row]:
    """One GPU: its figures, its lists, what the driver says of it. ``offset``: where it stands in the document."""
    uuid, bus = text_of(gpu.get("uuid")), text_of(gpu.get("bus_id"))
    ref = replace(gpu_ref(uuid=uuid, bus=bus), index=integer(gpu.get("index")))
    net, reserved = _mib(gpu, "used_v2"), _mib(gpu, "reserved")
    # The second version of NVML's call leaves the reserve out of what is used and gives it beside.
    gross = net is None or reserved is None
    yield GpuSample(
        at=at,
        gpu=ref,
        used_mib=_mib(gpu, "used") if gross else net,
        total_mib=_mib(gpu, "total"),
        reserved_mib=None if gross else reserved,
        used_includes_reserve=gross,
        name=text_of(gpu.get("name")),
        cited=segment.cite_json(document, offset),
        busy_s=busy_s,
    )
    yield from _bookings(segment, document, at, ref, gpu, offset)
    yield from _advice(segment, document, at, ref, gpu, offset)
    yield from _accounted(segment, document, at, ref, gpu, offset)


def _bookings(
    segment: Segment, document: JsonText, at: Place, ref: GpuRef, gpu: Mapping[str, object], offset: int
) -> Iterator[Row]:
    """One a process and kind. What the whole GPU's lists do not tell of a process, those of its MIG devices may."""
    for key, kind in _KINDS.items():
        sizes = _listed(gpu, key)
        for device in items(gpu.get("mig_devices")):
            for pid, size in _listed(mapping(device), key).items():
                sizes[pid] = size if sizes.get(pid) is None else sizes[pid]
        for pid, size in sizes.items():
            yield Booking(
                at=at,
                gpu=ref,
                pid=pid,
                mib=size,
                name=None,
                name_missing=None,
                kind=kind,
                cited=segment.cite_json(document, document.find(str(pid), offset)),
            )


def _listed(source: Mapping[str, object], key: str) -> dict[int, float | None]:
    """Sizes by PID; a process with several MIG instances has several entries."""
    sizes: dict[int, float | None] = {}
    for entry in items(source.get(key)):
        values = items(entry)
        pid = _pid(values[0] if values else None)
        size = _size(values[1] if len(values) > 1 else None)
        if pid is not None:
            before = sizes.get(pid)
            sizes[pid] = before if size is None else size + (before or 0.0)
    return sizes


def _advice(
    segment: Segment, document: JsonText, at: Place, ref: GpuRef, gpu: Mapping[str, object], offset: int
) -> Iterator[Row]:
    if action := text_of(gpu.get("recovery_action")):
        cited = segment.cite_json(document, document.find('"recovery_action"', offset))
        yield GpuReading(at, ref, "recovery_action", None, action[:_WORDS_CAP], cited)
    devices = [mapping(device) for device in items(gpu.get("mig_devices"))]
    if uuids := tuple(uuid for device in devices if (uuid := text_of(device.get("uuid")))):
        cited = segment.cite_json(document, document.find('"mig_devices"', offset))
        yield GpuName(at, ref, text_of(gpu.get("name")), uuids, cited)


def _accounted(
    segment: Segment, document: JsonText, at: Place, ref: GpuRef, gpu: Mapping[str, object], offset: int
) -> Iterator[Row]:
    """Rows ``[pid, peak bytes, first use in microseconds, milliseconds until its end, still running]``."""
    start = document.find('"accounted"', offset)
    for entry in items(gpu.get("accounted")):
        pid_, peak, started, lasted, running = (*items(entry), *[None] * 5)[:5]
        pid = _pid(pid_)
        if pid is None:
            continue
        begin, ran = integer(started), integer(lasted)
        start_ns = begin * 1000 if begin is not None and 0 < begin < _MICROSECONDS_CAP else None
        ended = _flag(running) is False and ran is not None and 0 < ran < _MICROSECONDS_CAP
        yield Accounted(
            at=at,
            gpu=ref,
            pid=pid,
            peak_mib=_size(peak),
            start_ns=start_ns,
            end_ns=start_ns + ran * 1_000_000 if start_ns is not None and ran is not None and ended else None,
            running=_flag(running),
            cited=segment.cite_json(document, document.find(str(pid), start)),
        )


def _pid(value: object) -> int | None:
    pid = integer(value)
    return pid if pid is not None and 0 < pid <= PID_CAP else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _mib(gpu: Mapping[str, object], key: str) -> float | None:
    size = integer(gpu.get(key))
    return None if size is None else size / _MIB


def _size(value: object) -> float | None:
    size = integer(value)
    return size / _MIB if size is not None and 0 <= size < _NVML_NOT_AVAILABLE else None
