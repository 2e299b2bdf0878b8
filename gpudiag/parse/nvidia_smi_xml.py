"""``nvidia-smi -q -x``. Read with expat as a stream: a cut document keeps what came before the cut.

The document's own DOCTYPE is let pass, nothing that it names is fetched; a document that declares entities is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from gpudiag.model import Booking, Citation, GpuReading, GpuRef, GpuSample, HostFact
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import QUOTE_CAP, Segment
from gpudiag.parse.values import gpu_ref, is_non_value, kind_of, mib, pid_of, shown_name, withheld

_SIZE_CAP = 16 * 1024 * 1024
_DEPTH_CAP = 64
_TEXT_CAP = 4096
_END = "</nvidia_smi_log>"
_FACTS = {"timestamp": "shown_time", "driver_version": "driver_version", "cuda_version": "cuda_version"}


class _RefusedError(Exception):
    """The document does something that nvidia-smi's never do."""


@dataclass
class _Process:
    line: int
    values: dict[str, str] = field(default_factory=lambda: dict[str, str]())


@dataclass
class _Gpu:
    bus: str
    values: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    """Direct children: product_name, uuid."""
    lines: dict[str, int] = field(default_factory=lambda: dict[str, int]())
    """Zero-based line of each of them."""
    sizes: dict[str, tuple[int, str]] = field(default_factory=lambda: dict[str, tuple[int, str]]())
    processes: list[_Process] = field(default_factory=lambda: list[_Process]())
    listed: bool = False

    def ref(self) -> GpuRef:
        """The GPU by bus id and UUID."""
        return gpu_ref(uuid=self.values.get("uuid"), bus=self.bus)


class _Document:
    """Keeps what is used of the events that expat gives."""

    def __init__(self) -> None:
        self.facts: dict[str, tuple[int, str]] = {}
        self.gpus: list[_Gpu] = []
        self.attached: str | None = None
        self.problem: str | None = None
        self._path: list[str] = []
        self._text: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def read(self, text: str) -> None:
        """Read as far as the text is well-formed."""
        if len(text) > _SIZE_CAP:
            text, self.problem = text[:_SIZE_CAP], f"longer than {_SIZE_CAP >> 20} MiB"
        try:
            self._parser.Parse(text.encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            self.problem = self.problem or f"XML ends or breaks at line {error.lineno}"
        except _RefusedError as error:
            self.problem = str(error)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._path) >= _DEPTH_CAP:
            raise _RefusedError("XML nested too deeply")
        self._path.append(name)
        self._text.clear()
        inside = self._path[1:]
        if inside == ["gpu"]:
            self.gpus.append(_Gpu(attributes.get("id", "")))
        elif self.gpus and inside == ["gpu", "processes"]:
            self.gpus[-1].listed = True
        elif self.gpus and inside == ["gpu", "processes", "process_info"]:
            self.gpus[-1].processes.append(_Process(self._parser.CurrentLineNumber - 1))

    def _end(self, name: str) -> None:
        inside = self._path[1:]
        text = "".join(self._text).strip()
        line = self._parser.CurrentLineNumber - 1
        if inside == [name] and name in _FACTS:
            self.facts[name] = (line, text)
        elif inside == ["attached_gpus"]:
            self.attached = text
        elif self.gpus and inside == ["gpu", name]:
            self.gpus[-1].values.setdefault(name, text)
            self.gpus[-1].lines.setdefault(name, line)
        elif self.gpus and inside == ["gpu", "fb_memory_usage", name]:
            self.gpus[-1].sizes.setdefault(name, (line, text))
        elif self.gpus and inside == ["gpu", "processes", "process_info", name] and self.gpus[-1].processes:
            self.gpus[-1].processes[-1].values.setdefault(name, text)
        self._path.pop()
        self._text.clear()

    def _characters(self, data: str) -> None:
        if len(self._text) < _TEXT_CAP:
            self._text.append(data[:_TEXT_CAP])

    def _entity(self, *_: object) -> None:
        raise _RefusedError("XML that declares entities")


def begins(line: str) -> bool:
    """The XML declaration, the DOCTYPE or the root."""
    return line.startswith(("<?xml", "<!DOCTYPE nvidia_smi_log", "<nvidia_smi_log"))


def rows(segment: Segment) -> Iterator[Row]:
    """One sample a GPU, one booking a process; a broken end is noted."""
    document = _Document()
    text, end, _ = "\n".join(segment.lines).partition(_END)
    document.read(text + end)
    if document.problem:
        yield segment.damage(0, document.problem)
    for key, (line, value) in document.facts.items():
        if not is_non_value(value):
            yield HostFact(segment.place, _FACTS[key], value, _cite(segment, line))
    for gpu in document.gpus:
        yield from _gpu(segment, gpu)
    whole = document.problem is None
    outcome = "ok" if whole else "truncated"
    if document.gpus:
        yield segment.coverage("gpu memory", outcome=outcome, because=document.problem, complete=whole)
    if any(gpu.listed for gpu in document.gpus):
        yield segment.coverage("compute processes", outcome=outcome, because=document.problem, complete=whole)
    if not document.gpus:
        because = document.problem or "no GPU in the XML"
        yield segment.coverage("gpu memory", outcome="not_understood", because=because)


def _gpu(segment: Segment, gpu: _Gpu) -> Iterator[Row]:
    sizes = {key: mib(value) for key, (_, value) in gpu.sizes.items()}
    product = gpu.values.get("product_name")
    if gpu.sizes:
        yield GpuSample(
            at=segment.place,
            gpu=gpu.ref(),
            used_mib=sizes.get("used"),
            total_mib=sizes.get("total"),
            reserved_mib=sizes.get("reserved"),
            used_includes_reserve=False,
            name=None if product is None or is_non_value(product) else product,
            cited=_cite(segment, gpu.sizes.get("used", next(iter(gpu.sizes.values())))[0]),
        )
    if recovery := gpu.values.get("gpu_recovery_action"):
        cited = _cite(segment, gpu.lines["gpu_recovery_action"])
        yield GpuReading(segment.place, gpu.ref(), "recovery_action", None, recovery[:QUOTE_CAP], cited)
    for process in gpu.processes:
        pid = pid_of(process.values.get("pid", ""))
        if pid is None:
            continue
        named = "process_name" in process.values
        name, missing = shown_name(process.values["process_name"]) if named else (None, None)
        yield Booking(
            at=segment.place,
            gpu=gpu.ref(),
            pid=pid,
            mib=mib(process.values.get("used_memory", "")),
            name=name,
            name_missing=missing,
            kind=kind_of(process.values.get("type", "")),
            cited=_cite(segment, min(process.line + _PID_BELOW, len(segment.lines) - 1)),
            withheld=withheld(process.values.get("used_memory")),
        )


_PID_BELOW = 3
"""``<pid>`` stands three lines below ``<process_info>``."""


def _cite(segment: Segment, line: int) -> Citation:
    cited = segment.cite(line)
    return Citation(cited.input, cited.member, cited.line, cited.quote.strip()[:QUOTE_CAP])
