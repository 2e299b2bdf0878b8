"""The lines of a flight recorder's ring, and the state of the machine that they add up to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpudiag.model import Damage, Recorder
from gpudiag.parse.jsontext import integer, items, mapping, text_of
from gpudiag.parse.source import Segment
from gpudiag.parse.values import PID_CAP

_LINE_CAP = 1 << 20
_SECONDS_CAP = 9_000_000_000
_LISTS = ("Compute", "Graphics", "MPSCompute")
_FLAWS_CAP = 100


@dataclass(frozen=True)
class Line:
    """One line."""

    offset: int
    """In the segment, from 0."""
    kind: str
    values: dict[str, object]
    time_ns: int | None

    @property
    def seen_ns(self) -> int | None:
        """When the process was last seen as it was before."""
        return _time_ns(self.values.get("seen"))

    def integer(self, key: str) -> int | None:
        """A number; ``None`` for anything else."""
        return integer(self.values.get(key))


@dataclass
class Told:
    """What the lines say of one process."""

    pid: int
    start: int
    """Clock ticks since boot."""
    values: dict[str, object]
    offset: int
    """Of the line with its newest command line."""
    born_ppid: int | None

    @property
    def devices(self) -> bool:
        """It has a device file open or mapped."""
        return bool(items(self.values.get("fds")) or items(self.values.get("maps")))


@dataclass
class State:
    """The machine as the lines read so far tell it."""

    processes: dict[int, Told] = field(default_factory=dict[int, Told])
    gpus: dict[int, Line] = field(default_factory=dict[int, Line])
    complete: bool = False
    """Everybody is in ``processes``."""
    header: dict[str, object] = field(default_factory=dict[str, object])
    observers: set[int] = field(default_factory=set[int])
    _before: dict[int, Told] | None = None
    """Who was there when the recorder before this one was last heard."""
    _held_before: set[int] = field(default_factory=set[int])
    _with_device: set[int] = field(default_factory=set[int])
    _listed: dict[int, frozenset[int]] = field(default_factory=dict[int, "frozenset[int]"])
    """PIDs in NVML's lists, by GPU, as far as they were needed."""
    _had: set[tuple[int, int]] = field(default_factory=set["tuple[int, int]"])

    def take(self, line: Line) -> list[tuple[int, int, bool]]:
        """One line. Returns who vanished while nobody recorded: PID, start ticks, whether it had a GPU."""
        if line.kind == "ring":
            self._header(line)
        elif line.kind == "proc":
            self._process(line)
        elif line.kind == "gone":
            # Another process may have its PID later.
            self.observers.discard(line.integer("pid") or 0)
            known = self.processes.get(line.integer("pid") or 0)
            if known is not None and known.start == line.integer("start"):
                del self.processes[known.pid]
                self._with_device.discard(known.pid)
        elif line.kind == "gpu":
            number = integer(mapping(line.values.get("gpu")).get("index"))
            if number is not None:
                self._remember(number)
                self.gpus[number] = line
                self._listed.pop(number, None)
        elif line.kind == "gpu lost":
            self.gpus.pop(line.integer("index") or 0, None)
            self._listed.pop(line.integer("index") or 0, None)
        elif line.kind == "no gpus":
            self.gpus.clear()
            self._listed.clear()
        elif line.kind == "own" and (pid := line.integer("pid")) is not None:
            self.observers.add(pid)
        elif line.kind == "all":
            self.complete = True
            return self._vanished()
        return []

    def holders(self) -> set[int]:
        """Who has a device open, or memory by NVML's lists."""
        for number in self.gpus:
            self._on(number)
        found = self._with_device.union(*self._listed.values())
        return {pid for pid in found if pid in self.processes and pid not in self.observers}

    def had_memory(self, told: Told) -> bool:
        """It stood in a list of NVML's that a newer one has replaced: memory goes a little before its process does."""
        return (told.pid, told.start) in self._had

    def _on(self, number: int) -> frozenset[int]:
        if number not in self._listed:
            self._listed[number] = _listed(self.gpus[number])
        return self._listed[number]

    def _remember(self, number: int) -> None:
        if number in self.gpus:
            found = (self.processes.get(pid) for pid in self._on(number))
            self._had.update((told.pid, told.start) for told in found if told is not None)

    def _header(self, line: Line) -> None:
        self.header = line.values
        own = set[int]() if (pid := line.integer("pid")) is None else {pid}
        if line.values.get("goes_on") is True and self.processes:
            self.observers |= own
            return
        self._before, self._held_before = self.processes, self.holders()
        self.observers = own
        self.processes, self.gpus, self.complete = {}, {}, False
        self._with_device, self._listed = set(), {}

    def _process(self, line: Line) -> None:
        pid, start = line.integer("pid"), line.integer("start")
        if pid is None or start is None or not 0 < pid <= PID_CAP:
            return
        known = self.processes.get(pid)
        if known is None or known.start != start:
            known = self.processes[pid] = Told(pid, start, dict(line.values), line.offset, line.integer("ppid"))
        else:
            known.values.update(line.values)
            if "cmdline" in line.values:
                known.offset = line.offset
        if known.devices:
            self._with_device.add(pid)
        else:
            self._with_device.discard(pid)

    def _vanished(self) -> list[tuple[int, int, bool]]:
        before, self._before = self._before or {}, None
        return [
            (pid, told.start, pid in self._held_before)
            for pid, told in before.items()
            if (now := self.processes.get(pid)) is None or now.start != told.start
        ]


def lines_of(segment: Segment, damage: list[Damage]) -> Iterator[Line]:
    """Every line that can be read; ``damage`` gets the others."""
    for offset, text in enumerate(segment.lines):
        if not text.strip():
            continue
        values = _values(text)
        kind = text_of(values.get("is"))
        if kind is None:
            # The last line of a file that was cut is no more than that.
            if len(damage) < _FLAWS_CAP and offset < len(segment.lines) - 1:
                damage.append(segment.damage(offset, "not a line of a flight recorder's ring"))
            continue
        yield Line(offset, kind, values, _time_ns(values.get("t")))


def same_machine(state: State, recorder: Recorder | None) -> bool:
    """Its PIDs and start ticks are those of the looks, as far as both say what they are of."""
    if recorder is None:
        return True
    pairs = (
        (text_of(state.header.get("boot_id")), recorder.boot_id),
        (text_of(state.header.get("pid_namespace")), recorder.pid_namespace),
    )
    return all(one == other for one, other in pairs if one is not None and other is not None)


def _listed(line: Line) -> frozenset[int]:
    gpu = mapping(line.values.get("gpu"))
    entries = (items(entry) for key in _LISTS for entry in items(gpu.get(key)))
    return frozenset(pid for entry in entries if entry and (pid := integer(entry[0])) is not None)


def _values(text: str) -> dict[str, object]:
    if len(text) > _LINE_CAP:
        return {}
    try:
        return dict(mapping(json.loads(text)))
    except (ValueError, RecursionError):
        return {}


def _time_ns(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < _SECONDS_CAP:
        return None
    return round(value * 1000) * 1_000_000
