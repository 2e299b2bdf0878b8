"""``nvml.json`` and ``nvml-series.json``: memory and process lists straight from NVML, in bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpudiag.evidence.header import instant_ns
from gpudiag.model import Booking, GpuSample, HostFact, Place
from gpudiag.parse.jsontext import JsonText, elements, integer, items, mapping, number, text_of
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import PID_CAP, gpu_ref

_KINDS = {"Compute": "compute", "Graphics": "graphics", "MPSCompute": "mps"}
_FACTS = ("driver_version", "cuda_version")
_MIB = 2**20
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
            yield from _gpu(segment, document, at, mapping(gpu), number(record.get("s")), offset)
            offset += 1
    if not seen:
        yield segment.coverage("gpu memory", outcome="not_understood", because="no GPU in the NVML record")
        return
    yield segment.coverage("gpu memory", complete=document.problem is None)
    yield segment.coverage("compute processes", complete=document.problem is None)


def _gpu(
    segment: Segment, document: JsonText, at: Place, gpu: Mapping[str, object], busy_s: float | None, offset: int
) -> Iterator[Row]:
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
    for key, kind in _KINDS.items():
        for entry in items(gpu.get(key)):
            values = items(entry)
            pid = integer(values[0]) if values else None
            if pid is None or not 0 < pid <= PID_CAP:
                continue
            yield Booking(
                at=at,
                gpu=ref,
                pid=pid,
                mib=_size(values[1] if len(values) > 1 else None),
                name=None,
                name_missing=None,
                kind=kind,
                cited=segment.cite_json(document, document.find(str(pid), offset)),
            )


def _mib(gpu: Mapping[str, object], key: str) -> float | None:
    size = integer(gpu.get(key))
    return None if size is None else size / _MIB


def _size(value: object) -> float | None:
    size = integer(value)
    return size / _MIB if size is not None and 0 <= size < _NVML_NOT_AVAILABLE else None
