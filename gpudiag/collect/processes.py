"""``proc.json``: raw texts of ``/proc`` for every process that holds or may hold a device, and for its relatives."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Callable, NamedTuple, cast

from gpudiag.collect.guarded import guarded
from gpudiag.collect.hidden import hides, own_hidepid
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended, Out
from gpudiag.redact.environment import allowed, parse
from gpudiag.redact.redactor import Redactor

STALL_S = 1.0
"""How long one process may take. A file of ``/proc`` waits for a lock of the process that it is about."""
INTEREST_CAP = 500
"""Processes that are written down; those with a device come first."""
_THREADS_CAP = 1024
"""Threads of one process that are read."""
_TEXT_CAP = 1 << 20
_MAPS_CAP = 64 << 20
_DEVICE = "/dev/nvidia"
_SAFE = ("stat", "status", "comm", "cgroup", "wchan", "stack", "limits")
_STATE, _PPID, _PGRP, _SESSION, _VSIZE = 0, 1, 2, 3, 20
"""Positions behind the closing bracket of comm in ``stat``."""
_KTHREADD = 2


class Seen(NamedTuple):
    """What decides whether a process is of interest."""

    pid: int
    state: str
    ppid: int
    pgid: int
    sid: int
    cgroup: str
    """Path of the unified hierarchy, else the first one that is not the root."""
    memory: bool
    """It has an address space: it is neither a kernel thread nor a zombie."""
    devices: Mapping[str, str]
    """Descriptor -> device file."""
    denied: bool
    """Its descriptors may not be read."""

    @property
    def kernel(self) -> bool:
        """It is a kernel thread: in a PID namespace of its own, PID 2 and its children are processes like others."""
        return _is_kernel(self.pid, self.ppid, self.state, memory=self.memory)


def produce(machine: Machine, out: Out, told: Callable[[], tuple[Iterable[int], Iterable[int]]]) -> None:
    """Write the rows. ``told`` is asked when everybody was looked at: for the collector's own processes, which are no
    relatives of anybody, and for the PIDs in NVML's lists.
    """
    begun = time.monotonic()
    folder = machine.proc
    hung: set[int] = set()
    seen = {item.pid: item for item in _scan(folder, out, hung)}
    mapped = dict(_mapped(folder, [item.pid for item in seen.values() if item.memory], out))
    hung |= {pid for pid, held in mapped.items() if held is None}
    seeds = {pid for pid, item in seen.items() if item.devices or (item.state in "ZD" and not item.kernel)}
    seeds |= {pid for pid, held in mapped.items() if held or held is None}
    # The driver takes as long to answer as all of this: who is of interest anyhow is read meanwhile.
    ready = dict(_records(folder, sorted(seeds)[:INTEREST_CAP], seen, hung, out))
    own, booked = map(set, told())
    chosen = choose(seen, (seeds | (seen.keys() & booked)) - own)
    written = chosen[:INTEREST_CAP]
    rest = [pid for pid in written if pid not in seeds]
    out.line("{")
    separator = ""
    early = ((pid, ready[pid]) for pid in written if pid in ready)
    for pid, record in chain(early, _records(folder, rest, seen, hung, out)):
        if not seen[pid].denied:
            record["nvidia_fds"] = seen[pid].devices
        record["nvidia_maps"] = mapped.get(pid) or []
        out.line(f'{separator}"{pid}": {json.dumps(record)}')
        separator = ","
    # Who is hidden is nobody that was denied: the folder is not there.
    hidden = not machine.root and hides(own_hidepid(folder))
    denied = sum(1 for item in seen.values() if item.denied and item.memory and item.pid not in own)
    summary = {
        "processes": len(seen),
        "denied": denied,
        "did_not_return": sorted(hung),
        "root": machine.root,
        "hidden": hidden,
        "not_written": max(0, len(chosen) - INTEREST_CAP),
        "seconds": round(time.monotonic() - begun, 3),
    }
    out.line(f'{separator}"scan": {json.dumps(summary)}')
    out.line("}")
    if hidden:
        raise Ended("denied", "/proc hides the processes of others (hidepid)")
    if denied:
        raise Ended("denied", f"{denied} of {len(seen)} processes could not be looked into without root")
    if hung:
        raise Ended("truncated", f"files of /proc did not return for PID {', '.join(map(str, sorted(hung)))}")


def choose(seen: Mapping[int, Seen], seeds: Iterable[int]) -> list[int]:
    """The seeds, then who shares a process group, a session, a cgroup or a line of descent with one of them."""
    first = sorted(seeds)
    known = [seen[pid] for pid in first]
    groups = {item.pgid for item in known if item.pgid > 1}
    sessions = {item.sid for item in known if item.sid > 1}
    cgroups = {item.cgroup for item in known if _tells(item.cgroup)}
    line = set(_ancestors(seen, first)) | set(_descendants(seen, first))
    related = [
        pid
        for pid, item in sorted(seen.items())
        if not item.kernel
        and (pid in line or item.pgid in groups or item.sid in sessions or item.cgroup in cgroups)
        and pid not in set(first)
    ]
    return first + related


def _tells(cgroup: str) -> bool:
    """Processes of one such group belong together: not the root's, and not all that a person has started."""
    return cgroup not in ("", "/", "/init.scope", "/user.slice", "/system.slice") and not cgroup.startswith(
        "/user.slice/"
    )


def _ancestors(seen: Mapping[int, Seen], pids: Iterable[int]) -> Iterator[int]:
    done: set[int] = set()
    for pid in pids:
        parent = seen[pid].ppid
        while parent in seen and parent not in done:
            done.add(parent)
            yield parent
            parent = seen[parent].ppid


def _descendants(seen: Mapping[int, Seen], pids: Iterable[int]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for pid, item in seen.items():
        children.setdefault(item.ppid, []).append(pid)
    waiting, done = list(pids), set(pids)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in done:
                done.add(child)
                waiting.append(child)
                yield child


def _scan(folder: str, out: Out, hung: set[int]) -> Iterator[Seen]:
    """Everybody who is there. Who vanishes meanwhile is left out, who does not answer is noted in ``hung``."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names, of thousands of folders
    except OSError as error:
        raise Ended("denied", f"{folder} cannot be read: {error.strerror}") from None
    pids = sorted(int(name) for name in names if name.isdecimal() and len(name) < 10)
    for pid, value in guarded(pids, lambda pid: _identity(folder, pid), STALL_S, out.started):
        if value is None:
            hung.add(pid)
        elif isinstance(value, list):
            state, ppid, pgid, sid, cgroup, memory, devices, denied = cast("list[object]", value)
            yield Seen(
                pid,
                cast("str", state),
                cast("int", ppid),
                cast("int", pgid),
                cast("int", sid),
                cast("str", cgroup),
                cast("bool", memory),
                cast("dict[str, str]", devices),
                cast("bool", denied),
            )


def _identity(folder: str, pid: int) -> object:
    base = f"{folder}/{pid}"
    stat = _text(f"{base}/stat")
    fields = stat[stat.rfind(")") + 1 :].split()
    if len(fields) <= _VSIZE:
        return False
    numbers = [int(fields[position]) for position in (_PPID, _PGRP, _SESSION)]
    memory = fields[_VSIZE] != "0"
    state = fields[_STATE][:1]
    if _is_kernel(pid, numbers[0], state, memory=memory):  # often most of them, and no relatives of anybody
        nothing: dict[str, str] = {}
        return [state, *numbers, "", memory, nothing, False]
    devices, denied = _devices(base, dead=state == "Z")
    return [state, *numbers, _cgroup(_text(f"{base}/cgroup")), memory, devices, denied]


def _is_kernel(pid: int, ppid: int, state: str, *, memory: bool) -> bool:
    return _KTHREADD in (pid, ppid) and not memory and state != "Z"


def _cgroup(text: str) -> str:
    paths = [line.split(":", 2)[2] for line in text.split("\n") if line.count(":") >= 2]
    unified = [line[3:] for line in text.split("\n") if line.startswith("0::")]
    return next((path for path in (*unified, *paths) if path != "/"), "/" if paths else "")


def _devices(base: str, *, dead: bool) -> tuple[dict[str, str], bool]:
    """NVIDIA devices among the descriptors of all threads, and whether they may be read.

    Threads nearly always share one table of descriptors; a thread is looked into where its numbers differ from the
    leader's. A dead leader has none, and its threads tell.
    """
    try:
        numbers = os.listdir(f"{base}/fd")  # noqa: PTH208
    except PermissionError:
        return {}, True
    except OSError:
        numbers = []
    found = _links(f"{base}/fd", numbers)
    try:
        threads = os.listdir(f"{base}/task")[:_THREADS_CAP]  # noqa: PTH208
    except OSError:
        threads = []
    if len(threads) < 2 and not dead:
        return found, False
    known = {tuple(numbers)}
    leader = base.rsplit("/", 1)[1]
    for thread in threads:
        if thread == leader:
            continue
        try:
            others = os.listdir(f"{base}/task/{thread}/fd")  # noqa: PTH208
        except OSError:
            continue
        if tuple(others) not in known:
            known.add(tuple(others))
            found.update(_links(f"{base}/task/{thread}/fd", others))
    return found, False


def _links(folder: str, numbers: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number in numbers:
        try:
            target = os.readlink(f"{folder}/{number}")  # noqa: PTH115
        except OSError:
            continue
        if target.startswith(_DEVICE):
            found[number] = target
    return found


def _mapped(folder: str, pids: list[int], out: Out) -> Iterator[tuple[int, list[str] | None]]:
    """Device files that each process has mapped; ``None``: its maps did not return."""
    for pid, value in guarded(pids, lambda pid: _maps(folder, pid), STALL_S, out.started):
        yield pid, cast("list[str]", value) if isinstance(value, list) else None


def _maps(folder: str, pid: int) -> list[str]:
    try:
        with open(f"{folder}/{pid}/maps", "rb") as file:  # noqa: PTH123
            data = file.read(_MAPS_CAP)
    except OSError:
        return []
    if _DEVICE.encode() not in data:
        return []
    lines = (line.split(None, 5) for line in data.split(b"\n") if _DEVICE.encode() in line)
    paths = {parts[5].decode("utf-8", "replace") for parts in lines if len(parts) == 6}
    return sorted(path for path in paths if path.startswith(_DEVICE))


def _records(
    folder: str, chosen: list[int], seen: Mapping[int, Seen], hung: set[int], out: Out
) -> Iterator[tuple[int, dict[str, object]]]:
    """The texts of the chosen; what waits for the process' own lock last, and not at all where it hung before."""
    for pid, value in guarded(chosen, lambda pid: _texts(folder, pid, memory=pid not in hung), STALL_S, out.started):
        if isinstance(value, dict):
            yield pid, cast("dict[str, object]", value)
        elif pid in seen:
            hung.add(pid)
            for _, again in guarded([pid], lambda pid: _texts(folder, pid, memory=False), STALL_S, out.started):
                if isinstance(again, dict):
                    yield pid, cast("dict[str, object]", again)


def _texts(folder: str, pid: int, *, memory: bool) -> dict[str, object]:
    base = f"{folder}/{pid}"
    record: dict[str, object] = {}
    for name in _SAFE:
        text = _text(f"{base}/{name}")
        if text:
            record[name] = text
    tasks: dict[str, str] = {}
    try:
        threads = os.listdir(f"{base}/task")[:_THREADS_CAP]  # noqa: PTH208
    except OSError:
        threads = []
    for thread in threads:
        text = _text(f"{base}/task/{thread}/stat")
        if text:
            tasks[thread] = text
    record["tasks"] = tasks
    if not memory:
        record["unread"] = ["cmdline", "exe", "environ"]
        return record
    try:
        record["exe"] = os.readlink(f"{base}/exe")  # noqa: PTH115
    except OSError:
        record.pop("exe", None)
    environ = _bytes(f"{base}/environ")
    if environ is not None:
        record["environ"] = allowed(parse(environ), Redactor())
    cmdline = _bytes(f"{base}/cmdline")
    if cmdline is not None:
        record["cmdline"] = cmdline.decode("utf-8", "replace")
    return record


def _text(path: str) -> str:
    data = _bytes(path)
    return "" if data is None else data.decode("utf-8", "replace")


def _bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(_TEXT_CAP)
    except OSError:
        return None
