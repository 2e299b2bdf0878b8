"""A report looked at from the side of whoever draws it: joins by id, shares of a bar, rows of a tree.

No judgement is made here. Values stay unescaped; each output escapes them its own way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from gpudiag.ranges import number_ranges
from gpudiag.report.contract import (
    Family,
    Gpu,
    Host,
    KillEntry,
    LedgerEntry,
    ProcessRef,
    Report,
    SourceRef,
    StopFirst,
)
from gpudiag.report.text import (
    LEDGER_KIND_WORDS,
    OUTCOME_WORDS,
    STATE_WORDS,
    UNKNOWN,
    by_reason,
    fate_text,
    listed,
    plural,
    total,
    when,
    word,
)

SHARE_WORDS: Final = {
    "family": "this server",
    "older_family": "older server",
    "other_tenant": "other tenant",
    "system": "system",
    "unknown": "owner not known",
    "driver": "driver",
    "unattributed": "nobody named",
    "unsplit": "in use, not split further",
    "reserve": "reserve",
    "free": "free",
}
"""Shares of a GPU's memory, in the order in which a bar draws them."""

_NO_KILL: Final = {
    "releasing": "Kill nothing more.",
    "released": "There is nothing to kill.",
    "nothing_held": "There is nothing to kill.",
}
MAX_DEPTH: Final = 8
"""Deepest indent of a family tree; deeper members are drawn at this depth."""


@dataclass(frozen=True)
class Share:
    """A part of a GPU's memory."""

    key: str
    """Key of SHARE_WORDS."""
    mib: float


@dataclass(frozen=True)
class Member:
    """One row of a family tree."""

    process: ProcessRef
    depth: int


@dataclass(frozen=True)
class KillGroup:
    """Kills that follow each other at one place."""

    host: str
    """Name of the host, empty where there is none."""
    run_in: str
    entries: tuple[KillEntry, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands in order, each once: one command may serve several PIDs."""
        return tuple(dict.fromkeys(entry.command for entry in self.entries))


@dataclass(frozen=True)
class Gap:
    """Something that could not be read."""

    what: str
    how: str
    because: str


class View:
    """Look-ups over one report."""

    def __init__(self, report: Report) -> None:
        self.report = report

    @cached_property
    def processes(self) -> dict[str, ProcessRef]:
        """Processes by id."""
        return {process.id: process for process in self.report.processes}

    @cached_property
    def hosts(self) -> dict[str, Host]:
        """Hosts by id."""
        return {host.id: host for host in self.report.hosts}

    @cached_property
    def gpus(self) -> dict[str, Gpu]:
        """GPUs by id."""
        return {gpu.id: gpu for gpu in self.report.gpus}

    def host_name(self, host: str | None) -> str:
        """The host's name, empty where the evidence names none."""
        known = self.hosts.get(host or "")
        return known.name if known else host or ""

    def gpu_name(self, gpu: str) -> str:
        """``GPU 0``; with the host where there are several."""
        known = self.gpus.get(gpu)
        if known is None or known.index is None:
            if gpu.endswith("?"):
                # The evidence speaks of one GPU and does not say of which.
                return self._on_host(known.host, "GPU not known") if known else "GPU not known"
            return gpu if gpu.startswith("GPU") else f"GPU {gpu}"
        return self._on_host(known.host, f"GPU {known.index}")

    def _on_host(self, host: str, name: str) -> str:
        return f"{self.host_name(host)} {name}" if len(self.report.hosts) > 1 else name

    def gpu_names(self, gpus: Sequence[Gpu]) -> str:
        """``GPU 0–7``: several GPUs, those of a host together."""
        indexes: dict[str, list[int]] = {}
        for gpu in gpus:
            if gpu.index is not None:
                indexes.setdefault(gpu.host, []).append(gpu.index)
        named = [self._on_host(host, f"GPU {number_ranges(group)}") for host, group in indexes.items()]
        return ", ".join([*named, *(self.gpu_name(gpu.id) for gpu in gpus if gpu.index is None)])

    def setting(self) -> str:
        """Where and when: ``gpu-node, 2026-11-30 19:40:13 UTC, driver 590.48.01, CUDA 13.1``; what is known of it."""
        report = self.report
        names = listed([host.name for host in report.hosts if host.name])
        newest = max((look for look in report.looks if look.time), key=lambda look: look.time or "", default=None)
        parts = [names, "" if newest is None else when(newest.time, newest.time_error_s)]
        for label, versions in (
            ("driver", [host.driver_version for host in report.hosts]),
            ("CUDA", [host.cuda_version for host in report.hosts]),
        ):
            known = dict.fromkeys(version for version in versions if version)
            parts.append(f"{label} {listed(tuple(known))}" if known else "")
        return ", ".join(part for part in parts if part)

    def holder(self, entry: LedgerEntry) -> str:
        """Who holds the memory of a dead process: ``held open by 702``."""
        held = [self.processes[name].pid for name in entry.held_by if name in self.processes]
        return f"held open by {number_ranges(sorted(held))}" if held else ""

    def holds(self, process: ProcessRef) -> str:
        """What a process holds over all GPUs; empty where it holds nothing."""
        if not process.holds_mib:
            return ""
        held = total(process.holds_mib.values())
        return "holds memory, size not known" if held == UNKNOWN else f"holds {held}"

    def pid_of(self, process: str | None) -> str:
        """PID of a process id, empty where there is none."""
        known = self.processes.get(process or "")
        return "" if known is None else str(known.pid)

    def process_facts(self, process: ProcessRef) -> str:
        """State, role, memory, owner and parent in one line."""
        state = UNKNOWN if process.state is None else word(STATE_WORDS, process.state[:1])
        facts = [f"state {state}", process.role or "", self.holds(process)]
        if process.user is not None:
            facts.append(f"user {process.user}")
        if process.parent_pid is not None:
            facts.append(_parent(process.parent_pid, process.parent_alive))
        return ", ".join(fact for fact in facts if fact)

    @cached_property
    def exiting(self) -> frozenset[str]:
        """Ids of zombies that still hold memory: killed, and some of their threads are left."""
        zombies = (process for process in self.report.processes if (process.state or "")[:1] == "Z")
        return frozenset(process.id for process in zombies if any(mib != 0 for mib in process.holds_mib.values()))

    @cached_property
    def dead(self) -> frozenset[str]:
        """Ids of processes that have ended though the driver still books memory on them."""
        entries = (entry for gpu in self.report.gpus for entry in gpu.ledger if entry.kind == "dead_process")
        return frozenset(entry.process for entry in entries if entry.process is not None)

    def held_by(self, entry: LedgerEntry) -> str:
        """``live process``, ``dead process, held open by 702``."""
        kind = word(LEDGER_KIND_WORDS, entry.kind)
        if entry.kind == "process" and entry.process in self.exiting:
            kind = "zombie, threads left"
        return ", ".join(part for part in (kind, self.holder(entry)) if part)

    def place(self, host: str, run_in: str) -> str:
        """``on gpu-node, in container vllm``; empty where there is nothing to tell."""
        on = f"on {host}" if host else ""
        inside = "" if run_in in ("", "host") else f"in {run_in}"
        return ", ".join(part for part in (on, inside) if part)

    def kill_groups(self) -> tuple[KillGroup, ...]:
        """The kills in their order, cut where the place changes."""
        groups: list[KillGroup] = []
        for entry in sorted(self.report.plan.kill, key=lambda entry: entry.order):
            here = (self.host_name(entry.host), entry.run_in)
            if groups and (groups[-1].host, groups[-1].run_in) == here:
                last = groups.pop()
                groups.append(KillGroup(*here, (*last.entries, entry)))
            else:
                groups.append(KillGroup(*here, (entry,)))
        return tuple(groups)

    def kill_line(self) -> str:
        """The plan's kills in one sentence."""
        entries = sorted(self.report.plan.kill, key=lambda entry: entry.order)
        if not entries:
            return _NO_KILL.get(self.report.outcome, "This report names no process to kill.")
        frees = [entry.frees_mib for entry in entries if entry.frees_mib != 0]
        what = "this process" if len(entries) == 1 else f"these {plural(len(entries), 'process', 'processes')} in order"
        return f"Kill {what}: {number_ranges(entry.pid for entry in entries)}.{_gain(frees)}"

    def stop_place(self, stop: StopFirst) -> str:
        """Where the command is given; empty for the host itself."""
        return self.place("", stop.run_in)

    def family_processes(self, family: Family) -> tuple[ProcessRef, ...]:
        """The members that the report describes."""
        return tuple(process for name in family.members if (process := self.processes.get(name)))

    def members(self, family: Family) -> tuple[Member, ...]:
        """The family as a tree in rows, parents before children."""
        own = {process.id: process for process in self.family_processes(family)}
        by_pid = {process.pid: name for name, process in own.items()}
        children: dict[str, list[str]] = {}
        for name, process in own.items():
            parent = by_pid.get(process.parent_pid) if process.parent_pid is not None else None
            if parent is not None and parent != name:
                children.setdefault(parent, []).append(name)
        nested = {name for group in children.values() for name in group}
        return tuple(_walk(own, children, [name for name in own if name not in nested]))

    def fates(self, family: Family) -> tuple[tuple[str, str], ...]:
        """What the steps did to the members: PIDs that share an answer, and the answer."""
        place = {step.id: n for n, step in enumerate(step for act in self.report.actions for step in act.steps)}
        fates = [(process, fate) for process in self.family_processes(family) for fate in process.fate]
        in_order = sorted(fates, key=lambda pair: place.get(pair[1].step, len(place)))
        shared = Counter(_in_general(process, fate_text(fate)) for process, fate in fates)
        return by_reason((process.pid, _told(process, fate_text(fate), shared)) for process, fate in in_order)

    def about(self, family: Family) -> str:
        """First process, state of its memory, main cause, in sentences."""
        root = UNKNOWN if family.root_pid is None else f"PID {family.root_pid}"
        holding = self._holding(family)
        # "Cannot be told" beside what it holds would read as a contradiction.
        outcome = "" if family.outcome == "inconclusive" and holding else word(OUTCOME_WORDS, family.outcome)
        titles = {finding.rule: finding.title for finding in self.report.findings}
        cause = "" if family.primary is None else f"Main cause: {titles.get(family.primary, '')} ({family.primary})"
        return " ".join(f"{part}." for part in (f"First process: {root}", outcome, holding, cause) if part)

    def _holding(self, family: Family) -> str:
        """What the family holds, and on how many GPUs where they are known; empty where it holds nothing."""
        if not family.holds_mib:
            return ""
        held = total(family.holds_mib.values())
        where = f" on {plural(len(family.holds_mib), 'GPU')}" if set(family.holds_mib) <= set(self.gpus) else ""
        return f"Holds {'memory, size not known' if held == UNKNOWN else held}{where}"

    def evidence_gaps(self) -> tuple[Gap, ...]:
        """What could not be read: sources that did not answer, and damaged parts of inputs."""
        gaps = [self._source_gap(source) for source in self.report.sources if source.outcome != "ok"]
        for ref in self.report.inputs:
            for damage in ref.damage:
                line = "" if damage.line is None else f":{damage.line}"
                gaps.append(Gap(f"{ref.id} {damage.member}{line}", "damaged", damage.reason))
            if not ref.complete and not ref.damage:
                gaps.append(Gap(f"{ref.id} {ref.path}", "incomplete", "the input was cut off or damaged"))
        return tuple(gaps)

    def _source_gap(self, source: SourceRef) -> Gap:
        where = ", ".join(part for part in (source.input, source.look) if part)
        return Gap(f"{source.source} ({where})", source.outcome.replace("_", " "), source.because or "")

    def read_sources(self) -> str:
        """Names of the sources that were read."""
        names = dict.fromkeys(source.source for source in self.report.sources if source.outcome == "ok")
        return listed(tuple(names))


def shares(gpu: Gpu) -> tuple[Share, ...]:
    """How the memory of a GPU divides; empty where its total or its use is not known."""
    if gpu.total_mib is None or gpu.used_mib is None or gpu.total_mib <= 0:
        return ()
    sums = dict.fromkeys(SHARE_WORDS, 0.0)
    for entry in gpu.ledger:
        sums[_share_key(entry)] += max(entry.mib or 0.0, 0.0)
    sums["unsplit"] = max(gpu.used_mib - sum(sums.values()), 0.0)
    sums["reserve"] = max(gpu.reserved_mib or 0.0, 0.0)
    sums["free"] = max(gpu.total_mib - sum(sums.values()), 0.0)
    return tuple(Share(key, size) for key, size in sums.items() if size > 0)


def _in_general(process: ProcessRef, reason: str) -> str:
    """The reason without what the process is called, so that eight workers share one."""
    for called, general in ((process.cmdline, "its command line"), (process.name, "its name")):
        if called and reason.endswith(f" {called}"):
            return f"{reason.removesuffix(called)}{general}"
    return reason


def _told(process: ProcessRef, reason: str, shared: Counter[str]) -> str:
    general = _in_general(process, reason)
    return general if shared[general] > 1 else reason


def _gain(frees: list[float | int | None]) -> str:
    if not frees:
        return ""
    known = any(size is not None for size in frees)
    return f" That frees {total(frees)}." if known else " How much that frees is not known."


def _share_key(entry: LedgerEntry) -> str:
    if entry.kind in ("driver", "unattributed"):
        return entry.kind
    return entry.whose if entry.whose in ("family", "older_family", "other_tenant", "system") else "unknown"


def _walk(own: dict[str, ProcessRef], children: dict[str, list[str]], roots: list[str]) -> Iterator[Member]:
    seen: set[str] = set()
    # Processes that name each other as parent have no root; they are drawn last, at the outer edge.
    for start in (*roots, *own):
        stack = [(start, 0)]
        while stack:
            name, depth = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            yield Member(own[name], min(depth, MAX_DEPTH))
            stack.extend((child, depth + 1) for child in reversed(children.get(name, [])))


def _parent(pid: int, alive: bool | None) -> str:
    """``alive``: the process that started it. PID 1 takes the children of the dead, and is alive itself."""
    if pid == 1:
        return "parent 1, which took it over from a dead one" if alive is False else "parent 1"
    return f"parent {pid}" + {True: "", False: " (dead)", None: " (not known whether alive)"}[alive]
