"""``nvidia-smi -q`` as text: memory and processes of each GPU, by indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpudiag.model import Booking, Citation, GpuReading, GpuRef, GpuSample, HostFact
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import QUOTE_CAP, Segment
from gpudiag.parse.values import gpu_ref, is_non_value, kind_of, mib, pid_of, shown_name, withheld
from gpudiag.parse.values import whole as whole_number

_HEADING = re.compile(r"=+NVSMI LOG=+\s*\Z")
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*\Z")
_PAIR = re.compile(r"(?P<indent>\s*)(?P<key>\S[^:]{0,80}?)\s*:(?: (?P<value>.*))?\Z")
_FACTS = {"Timestamp": "shown_time", "Driver Version": "driver_version", "CUDA Version": "cuda_version"}
_FRAMEBUFFER = "FB Memory Usage"
_ATTACHED = "Attached GPUs"


@dataclass
class _Gpu:
    """One GPU's block, while it is read."""

    bus: str
    section: str = ""
    sizes: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    names: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    cited: Citation | None = None
    listed: bool = False

    def ref(self) -> GpuRef:
        """The GPU by bus id and UUID; ``-q`` numbers only its minor device."""
        return gpu_ref(uuid=self.names.get("GPU UUID"), bus=self.bus)


def begins(line: str) -> bool:
    """The line above everything else."""
    return bool(_HEADING.match(line))


def continues(line: str) -> bool:
    """A pair, a section's name or a blank line."""
    return not line.strip() or line[:1] == " " or bool(_GPU.match(line)) or " : " in line


def rows(segment: Segment) -> Iterator[Row]:
    """One sample a GPU, one booking a process, and how far the text reached."""
    gpu: _Gpu | None = None
    process: dict[str, tuple[int, str]] = {}
    blocks: list[_Gpu] = []
    attached: str | None = None
    for offset, line in enumerate(segment.lines):
        if match := _GPU.match(line):
            yield from _booking(segment, gpu, process)
            gpu, process = _Gpu(match[1]), {}
            blocks.append(gpu)
            continue
        pair = _PAIR.match(line)
        if gpu is None:
            if pair and pair["key"] in _FACTS:
                yield HostFact(segment.place, _FACTS[pair["key"]], (pair["value"] or "").strip(), segment.cite(offset))
            elif pair and pair["key"] == _ATTACHED:
                attached = (pair["value"] or "").strip()
        elif pair is None:
            gpu.section = line.strip() or gpu.section
            gpu.listed = gpu.listed or gpu.section == "Processes"
        elif pair["key"] == "Processes":
            # ``Processes : None``: the list is there and empty.
            gpu.listed = True
        elif pair["key"] in ("GPU instance ID", "Process ID") and "Name" in process | {"": (0, "")} and process:
            yield from _booking(segment, gpu, process)
            process = {}
            _keep(segment, gpu, process, offset, pair)
        else:
            yield from _recovery(segment, gpu, offset, pair)
            _keep(segment, gpu, process, offset, pair)
    yield from _booking(segment, gpu, process)
    yield from _samples(segment, blocks)
    yield from _coverage(segment, blocks, attached)


def _recovery(segment: Segment, gpu: _Gpu, offset: int, pair: re.Match[str]) -> Iterator[Row]:
    """What the driver wants done about the GPU; ``None`` is its word for nothing."""
    if pair["key"] == "GPU Recovery Action" and (value := (pair["value"] or "").strip()[:QUOTE_CAP]):
        yield GpuReading(segment.place, gpu.ref(), "recovery_action", None, value, segment.cite(offset))


def _keep(segment: Segment, gpu: _Gpu, process: dict[str, tuple[int, str]], offset: int, pair: re.Match[str]) -> None:
    key, value = pair["key"], (pair["value"] or "").strip()
    if gpu.section == _FRAMEBUFFER:
        gpu.sizes.setdefault(key, value)
        gpu.cited = segment.cite(offset) if key == "Used" else gpu.cited
    elif gpu.listed and key in ("Process ID", "Type", "Name", "Used GPU Memory"):
        process[key] = (offset, value)
    elif key in ("Product Name", "GPU UUID"):
        gpu.names.setdefault(key, value)


def _booking(segment: Segment, gpu: _Gpu | None, process: Mapping[str, tuple[int, str]]) -> Iterator[Row]:
    if gpu is None or "Process ID" not in process:
        return
    offset, text = process["Process ID"]
    pid = pid_of(text)
    if pid is None:
        return
    name, missing = shown_name(process["Name"][1]) if "Name" in process else (None, None)
    size = mib(process["Used GPU Memory"][1]) if "Used GPU Memory" in process else None
    kind = kind_of(process["Type"][1]) if "Type" in process else "unknown"
    words = withheld(process["Used GPU Memory"][1]) if "Used GPU Memory" in process else None
    yield Booking(segment.place, gpu.ref(), pid, size, name, missing, kind, segment.cite(offset), words)


def _samples(segment: Segment, blocks: list[_Gpu]) -> Iterator[Row]:
    for gpu in blocks:
        if gpu.cited is None:
            continue
        product = gpu.names.get("Product Name")
        yield GpuSample(
            at=segment.place,
            gpu=gpu.ref(),
            used_mib=mib(gpu.sizes.get("Used", "")),
            total_mib=mib(gpu.sizes.get("Total", "")),
            reserved_mib=mib(gpu.sizes.get("Reserved", "")),
            used_includes_reserve=False,
            name=None if product is None or is_non_value(product) else product,
            cited=gpu.cited,
        )


def _coverage(segment: Segment, blocks: list[_Gpu], attached: str | None) -> Iterator[Row]:
    whole = attached is not None and whole_number(attached) == len(blocks)
    outcome = "ok" if whole else "truncated"
    because = None if whole else "fewer GPUs than the heading names"
    if any(gpu.cited for gpu in blocks):
        yield segment.coverage("gpu memory", outcome=outcome, because=because, complete=whole)
    if any(gpu.listed for gpu in blocks):
        # A cut inside the last GPU's list cannot be seen, so the list counts as whole only with all GPUs.
        yield segment.coverage("compute processes", outcome=outcome, because=because, complete=whole)
