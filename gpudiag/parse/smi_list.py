"""``nvidia-smi -L``: index, model and UUID of each GPU, and the UUIDs of its MIG devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpudiag.model import GpuName
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing
from gpudiag.parse.nvidia_smi_csv import is_error
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import gpu_ref

_GPU = re.compile(r"GPU (\d{1,4}): (\S.{0,100}?) \(UUID: (GPU-[\w-]{1,60})\)\s*\Z")
_MIG = re.compile(r"\s+MIG \S{1,40}\s+Device\s+\d{1,3}: \(UUID: (MIG-[\w/-]{1,120})\)\s*\Z")


def rows(segment: Segment) -> Iterator[Row]:
    """One name a GPU."""
    found: list[GpuName] = []
    failed = False
    for offset, line in enumerate(segment.lines):
        gpu, mig = _GPU.match(line), _MIG.match(line)
        if gpu:
            found.append(GpuName(segment.place, gpu_ref(gpu[1], gpu[3]), gpu[2], (), segment.cite(offset)))
        elif mig and found:
            found[-1] = replace(found[-1], mig_uuids=(*found[-1].mig_uuids, mig[1]))
        elif is_error(line):
            failed = True
            yield segment.damage(offset, line.strip())
    yield from found
    filtered = segment.shown is not None and segment.shown.filtered
    yield segment.coverage("gpu names", complete=not failed and not filtered)


def _printed_by(shown: Shown) -> bool:
    return shown.tool == "nvidia-smi" and any(word in ("-L", "--list-gpus") for word in shown.argv)


LISTING = Listing(
    rows=rows,
    begins=lambda line: bool(_GPU.match(line)),
    continues=lambda line: bool(_GPU.match(line) or _MIG.match(line) or is_error(line)),
    printed_by=_printed_by,
)
