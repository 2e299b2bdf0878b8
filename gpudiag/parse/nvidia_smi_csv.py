"""``nvidia-smi --query-gpu`` and ``--query-compute-apps`` with ``--format=csv``.

The fields come from the heading, or, with ``noheader``, from the command. Both spellings of a field are known: the one
that is asked for (``used_memory``) and the one that is printed (``used_gpu_memory [MiB]``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpudiag.evidence.header import stamp_ns
from gpudiag.evidence.transcript import ZONE_ERROR_NS
from gpudiag.model import Booking, GpuReading, GpuRef, GpuSample, HostFact, Place
from gpudiag.parse.commands import Shown
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import QUOTE_CAP, Segment, is_omission
from gpudiag.parse.values import bus_in, gpu_ref, is_fault, is_non_value, mib, percent, pid_of, shown_name, withheld

_CANONICAL = {
    "gpu_uuid": "uuid",
    "gpu_bus_id": "bus_id",
    "pci.bus_id": "bus_id",
    "gpu_name": "gpu_name",
    "process_name": "process_name",
    "used_memory": "used_gpu_memory",
    "used_gpu_memory": "used_gpu_memory",
    "gpu_util": "gpu_utilization",
    "mem_util": "mem_utilization",
}
_GPU_FIELDS = frozenset(
    {"index", "uuid", "bus_id", "name", "gpu_name", "count", "driver_version", "timestamp", "serial", "gpu_serial"}
)
_KNOWN_PREFIXES = (
    "memory.", "utilization.", "temperature.", "power.", "clocks.", "pci.", "ecc.", "mig.", "fan.", "pstate",
    "persistence_mode", "compute_mode", "compute_cap", "accounting.", "vbios_version", "display_", "driver_model",
    "encoder.", "enforced.", "gom.", "inforom.", "retired_pages", "clocks_", "protected_memory", "fabric.", "gsp.",
    "addressing_mode", "gpu_utilization", "mem_utilization", "max_memory_usage", "time", "used_gpu_memory",
    "process_name", "pid", "vgpu_", "remapped_rows", "board_", "hostname", "c2c.", "dramEncryption",
)  # fmt: skip
_UNIT = re.compile(r"\s*\[([^\]]{1,12})\]\s*\Z")
_NOBODY = re.compile(r"\s*No running .{0,20}processes found", re.IGNORECASE)
_ERROR = re.compile(
    r"Unable to determine the device handle for |GPU \d{1,4}: GPU is lost|Unknown Error\s*\Z"
    r"|Failed to (?:initialize|get) |NVML: |(?:WARNING|Error): .{0,80}(?:infoROM|InfoROM|GPU)"
)
"""What nvidia-smi prints between rows about a GPU that it cannot reach; the rows behind it still count."""
_QUERY = re.compile(r"--query-(gpu|compute-apps|accounted-apps)(?:=(.*))?\Z", re.DOTALL)


@dataclass(frozen=True)
class Layout:
    """The columns of a table."""

    fields: tuple[str, ...]
    units: tuple[str, ...]
    """Unit of each column, for numbers without one."""

    @property
    def of_processes(self) -> bool:
        """A row is a process, not a GPU."""
        return "pid" in self.fields

    @property
    def accounted(self) -> bool:
        """A row is a process of the past."""
        return "max_memory_usage" in self.fields


@dataclass(frozen=True)
class Query:
    """What a command asks for."""

    layout: Layout
    heading: bool
    gpu: str | None
    """``-i``'s argument."""


def query_of(shown: Shown) -> Query | None:
    """The query of an nvidia-smi command with CSV output, if it is one."""
    if shown.tool != "nvidia-smi" or shown.reshaped:
        return None
    fields: str | None = None
    of_processes = False
    options = ""
    gpu: str | None = None
    words = [*shown.argv[1:], ""]
    for position, word in enumerate(words[:-1]):
        match = _QUERY.match(word)
        if match:
            fields = match[2] if match[2] is not None else words[position + 1]
            of_processes = match[1] != "gpu"
        elif word.startswith("--format"):
            options = word.partition("=")[2] or words[position + 1]
        elif word in ("-i", "--id") or word.startswith(("--id=", "-i=")):
            gpu = word.partition("=")[2] or words[position + 1]
    if fields is None or "csv" not in options.split(","):
        return None
    names = tuple(_canonical(name, of_processes) for name in fields.split(","))
    return Query(Layout(names, ("MiB",) * len(names)), "noheader" not in options.split(","), gpu)


def heading(line: str) -> Layout | None:
    """The layout that a heading gives, ``None`` if the line is none."""
    cells = line.split(",")
    if len(line) > 4096 or not cells[0].strip():
        return None
    bare = [_UNIT.sub("", cell).strip() for cell in cells]
    of_processes = "pid" in bare
    names = tuple(_canonical(name, of_processes) for name in bare)
    if not all(_known(name) for name in names):
        return None
    if len(names) == 1 and names[0] in ("name", "time", "timestamp", "index", "pid", "count", "uuid", "process_name"):
        # A single common word is no heading without its command; the dotted names are.
        return None
    units = tuple(match[1] if (match := _UNIT.search(cell)) else "MiB" for cell in cells)
    return Layout(names, units)


def is_error(line: str) -> bool:
    """The line is nvidia-smi's complaint about one GPU, not a row."""
    return bool(_ERROR.match(line))


def fits(layout: Layout, line: str) -> bool:
    """The line may be a row of this layout."""
    if _NOBODY.match(line):
        return True
    values = _values(layout, line)
    if values is None:
        return False
    if layout.of_processes:
        return pid_of(values["pid"]) is not None or is_non_value(values["pid"])
    return all(_plausible(name, value) for name, value in values.items())


def rows(segment: Segment, layout: Layout, first: int, query: Query | None) -> Iterator[Row]:
    """Rows from the line ``first`` of the segment on; the lines before it are the heading."""
    number = 0
    failed = False
    for offset in range(first, len(segment.lines)):
        line = segment.lines[offset]
        if not line.strip() or _NOBODY.match(line) or is_omission(line):
            continue
        if is_error(line):
            failed = True
            yield segment.damage(offset, line.strip()[:QUOTE_CAP])
            gpu = GpuRef(bus_id=bus_in(line))
            yield GpuReading(segment.place, gpu, "device", None, line.strip()[:QUOTE_CAP], segment.cite(offset))
            continue
        values = _values(layout, line)
        if values is None:
            yield segment.damage(offset, f"a row of {len(layout.fields)} fields was expected")
            continue
        yield from _row(segment, layout, offset, values, _nth_gpu(query, number, segment))
        number += 1
    yield from coverage(segment, layout, query, failed=failed)
    if layout.of_processes and not layout.accounted and not failed and (query is None or query.gpu is None):
        texts = tuple(line for line in segment.lines[first:] if line.strip() and not _NOBODY.match(line))
        whole = segment.printout("compute-apps", texts, layout.fields)
        if whole is not None:
            yield whole


def coverage(segment: Segment, layout: Layout, query: Query | None, *, failed: bool = False) -> Iterator[Row]:
    """How far the answer reaches: all of it unless a GPU was chosen, a filter stands behind, or a GPU gave an error."""
    filtered = segment.shown is not None and segment.shown.filtered
    complete = not filtered and not failed and (query is None or query.gpu is None)
    if layout.of_processes and not layout.accounted:
        yield segment.coverage("compute processes", complete=complete)
    elif not layout.of_processes and _tells_memory(layout):
        yield segment.coverage("gpu memory", complete=complete)


def _row(segment: Segment, layout: Layout, offset: int, values: Mapping[str, str], fallback: GpuRef) -> Iterator[Row]:
    at = _place(segment, values)
    gpu = gpu_ref(values.get("index"), values.get("uuid"), values.get("bus_id"))
    if gpu == GpuRef():
        gpu = fallback
    units = dict(zip(layout.fields, layout.units, strict=True))
    if layout.accounted:
        return
    if layout.of_processes:
        pid = pid_of(values["pid"])
        if pid is None:
            yield segment.damage(offset, "a row without a PID")
            return
        name, missing = shown_name(values["process_name"]) if "process_name" in values else (None, None)
        size = mib(values.get("used_gpu_memory", ""), units.get("used_gpu_memory", "MiB"))
        words = withheld(values.get("used_gpu_memory"))
        yield Booking(at, gpu, pid, size, name, missing, "compute", segment.cite(offset), words)
        return
    yield from _readings(segment, at, gpu, offset, values)
    if "driver_version" in values and not is_non_value(values["driver_version"]):
        yield HostFact(at, "driver_version", values["driver_version"], segment.cite(offset))
    if _tells_memory(layout):
        sizes = {key: mib(values.get(key, ""), units.get(key, "MiB")) for key in _MEMORY}
        name = values.get("name")
        yield GpuSample(
            at=at,
            gpu=gpu,
            used_mib=sizes["memory.used"],
            total_mib=sizes["memory.total"],
            reserved_mib=sizes["memory.reserved"],
            used_includes_reserve=False,
            name=None if name is None or is_non_value(name) else name,
            cited=segment.cite(offset),
        )


def _readings(segment: Segment, at: Place, gpu: GpuRef, offset: int, values: Mapping[str, str]) -> Iterator[Row]:
    """The load, and every word in place of a memory figure or about a GPU in trouble."""
    for field, text in values.items():
        load = percent(text) if field == "utilization.gpu" else None
        tells = field.startswith("memory.") or is_fault(text)
        if load is not None or (tells and is_non_value(text)):
            words = None if load is not None else text[:QUOTE_CAP]
            yield GpuReading(at, gpu, field, load, words, segment.cite(offset))


_MEMORY = ("memory.used", "memory.total", "memory.reserved")


def _tells_memory(layout: Layout) -> bool:
    return any(name in layout.fields for name in _MEMORY)


def _place(segment: Segment, values: Mapping[str, str]) -> Place:
    """The recorded start of the command; without it the row's own stamp, which has no zone."""
    if segment.place.time_ns is not None or "timestamp" not in values:
        return segment.place
    stamp = stamp_ns(values["timestamp"].replace("/", "-"))
    return segment.place if stamp is None else segment.at(stamp[0], ZONE_ERROR_NS)


def _nth_gpu(query: Query | None, number: int, segment: Segment) -> GpuRef:
    """A GPU that no field names: nvidia-smi prints them in the order of their index, or the one asked for."""
    if query is None or (query.layout.of_processes and query.gpu is None):
        return GpuRef()
    if query.gpu is not None:
        chosen = query.gpu.split(",")
        if query.layout.of_processes:
            return gpu_ref(chosen[0]) if len(chosen) == 1 else GpuRef()
        return gpu_ref(chosen[number]) if number < len(chosen) else GpuRef()
    return GpuRef() if segment.shown is None or segment.shown.filtered else GpuRef(index=number)


def _values(layout: Layout, line: str) -> dict[str, str] | None:
    """Field by field; what is too much belongs to the name, which may hold commas."""
    cells = line.split(",")
    extra = len(cells) - len(layout.fields)
    if extra < 0:
        return None
    if extra:
        name = next((key for key in ("process_name", "name", "gpu_name") if key in layout.fields), None)
        if name is None:
            return None
        at = layout.fields.index(name)
        cells[at : at + extra + 1] = [",".join(cells[at : at + extra + 1])]
    return {key: _unquoted(cell.strip()) for key, cell in zip(layout.fields, cells, strict=True)}


def _unquoted(text: str) -> str:
    return text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text


def _plausible(name: str, value: str) -> bool:
    if is_non_value(value):
        return True
    if name in _MEMORY or name == "memory.free":
        return mib(value) is not None
    if name == "index":
        return value.isdecimal()
    return name != "uuid" or value.startswith(("GPU-", "MIG-"))


def _canonical(name: str, of_processes: bool) -> str:
    name = name.strip()
    if name == "name" and of_processes:
        return "process_name"
    if name == "gpu_name" and not of_processes:
        return "name"
    return _CANONICAL.get(name, name)


def _known(name: str) -> bool:
    return name in _GPU_FIELDS or (name.startswith(_KNOWN_PREFIXES) and " " not in name)
