"""The steps below the processes: a reset, a reboot, a module. Never the first ones, and never over somebody's head.

A rung comes after everything gentler, names its precondition, and stands behind the question to whoever else works on
the machine. What the driver itself refused or cannot do is not proposed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpudiag.report.contract import ThenEntry
from gpudiag.rules.engine import Match
from gpudiag.timeline.daemons import is_daemon
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life
from gpudiag.verdict import Verdict

SAVE_LOG = "sudo dmesg -T | grep -e NVRM -e Xid -e nvidia -e 'blocked for'"
FIGURES = "nvidia-smi --query-gpu=index,memory.used --format=csv"
MAX_NAMED = 16
_STUCK, _FAULT, _HANGS, _BLOCKED, _NOBODY = "GPD501", "GPD502", "GPD504", "GPD505", "GPD503"
_WITHHELD, _HIDDEN, _BROKEN = "GPD402", "GPD403", "GPD506"


def rungs(incident: Incident, verdict: Verdict, facts: Mapping[str, Sequence[Row]]) -> Iterator[ThenEntry]:
    """What is left to do where no kill helps."""
    sure = {match.rule_id: match for match in verdict.findings if match.certainty != "possible"}
    needs = [sure[rule] for rule in (_STUCK, _FAULT, _NOBODY) if rule in sure]
    if _NOBODY in sure:
        because = "a release that still runs looks the same; a minute tells them apart"
        yield ThenEntry(kind="wait", command=f"sleep 60; {FIGURES}", because=because)
    if needs or _HANGS in sure:
        yield _evidence_first(sure)
    if needs:
        yield from _others_first(incident, needs)
        yield from _below(incident, sure, facts)
    if _BLOCKED in sure:
        yield from _unblock(incident, sure[_BLOCKED])
    yield from _elsewhere(sure)


def driver_hangs(verdict: Verdict) -> bool:
    """A query of the driver did not end."""
    return any(match.rule_id == _HANGS for match in verdict.findings)


def stuck_pids(verdict: Verdict) -> frozenset[int]:
    """Processes that no signal ends, as far as that is more than possible."""
    found = [match for match in verdict.findings if match.rule_id == _STUCK and match.certainty != "possible"]
    return frozenset(pid for match in found for pid in match.pids)


def _evidence_first(sure: Mapping[str, Match]) -> ThenEntry:
    pids = [str(pid) for pid in sure[_STUCK].pids[:MAX_NAMED]] if _STUCK in sure else []
    stacks = [f"sudo cat /proc/{pid}/stack" for pid in pids]
    return ThenEntry(
        kind="collect",
        command="; ".join([SAVE_LOG, *stacks]),
        because="they name the fault, and are gone after a reboot",
    )


def _others_first(incident: Incident, needs: Sequence[Match]) -> Iterator[ThenEntry]:
    """Whoever has the GPU in use and is not what this is about."""
    about = {pid for match in needs for pid in match.pids}
    others = [life for life in _users(incident) if life.pid not in about]
    if others:
        named = ", ".join(f"{life.pid} ({life.title or 'process'})" for life in others[:MAX_NAMED])
        yield ThenEntry(
            kind="ask_owner",
            command=None,
            because=f"a reset or a reboot ends everybody's work on this machine; in use by: {named}",
        )


def _users(incident: Incident) -> list[Life]:
    """Living processes that hold device memory or have a device mapped in the newest look, daemons aside."""
    found: list[Life] = []
    for life in incident.census.lives:
        look = incident.newest(life.host)
        seen = life.sightings.get(look.id) if look is not None else None
        if seen is not None and (seen.bookings or seen.mapped) and incident.alive(life) and not is_daemon(life):
            found.append(life)
    return found


def _below(incident: Incident, sure: Mapping[str, Match], facts: Mapping[str, Sequence[Row]]) -> Iterator[ThenEntry]:
    before = "once every process of everybody else is off the machine's GPUs"
    if _resettable(sure, facts):
        index = _index(incident, sure)
        yield ThenEntry(
            kind="gpu_reset",
            command=f"sudo nvidia-smi --gpu-reset -i {index}" if index is not None else None,
            because=f"next rung, {before}: the driver starts the GPU anew; it refuses while anybody has it open",
        )
    why = "where that is refused" if _resettable(sure, facts) else _why_no_reset(sure, facts)
    yield ThenEntry(kind="reboot", command=None, because=f"last rung, {before}: {why}, only a reboot is left")


def _resettable(sure: Mapping[str, Match], facts: Mapping[str, Sequence[Row]]) -> bool:
    return _why_no_reset(sure, facts) == ""


def _why_no_reset(sure: Mapping[str, Match], facts: Mapping[str, Sequence[Row]]) -> str:
    """Why a reset cannot be asked for; empty where it can."""
    rows = sure[_FAULT].rows if _FAULT in sure else ()
    if _HANGS in sure:
        return "nvidia-smi hangs, so that a reset cannot be asked for"
    if _STUCK in sure:
        return "the stuck process keeps the GPU open and a reset is refused for it"
    if any(row["reason"] == "not_supported" for row in facts["refusal"]):
        return "the driver says that this GPU cannot be reset"
    if any(row["off_bus"] is True for row in rows):
        return "the GPU does not answer on the bus"
    if any(word in f"{row['recovery']} {row['words']}".lower() for row in rows for word in ("reboot", "is lost")):
        return "the driver itself asks for a reboot"
    if any(row["answers"] is False and row["tool_says_fault"] is not True for row in rows):
        return "nvidia-smi does not reach the GPU"
    return ""


def _index(incident: Incident, sure: Mapping[str, Match]) -> int | None:
    gpus = {gpu for rule in (_FAULT, _NOBODY) if rule in sure for gpu in sure[rule].gpus}
    return incident.gpus.get(gpus.pop()).index if len(gpus) == 1 else None


def _unblock(incident: Incident, match: Match) -> Iterator[ThenEntry]:
    """The holder's own command, where it is a part of the driver."""
    openers = [name for row in match.rows for name in (row["openers"] or ())]
    clients = [name for row in match.rows for name in (row["kernel_clients"] or ())]
    only_persistence = bool(openers) and all(name.startswith("nvidia-persiste") for name in openers)
    indices = sorted({i for gpu in match.gpus if (i := incident.gpus.get(gpu).index) is not None})
    if only_persistence:
        chosen = f" -i {','.join(map(str, indices))}" if indices else ""
        yield ThenEntry(
            kind="persistence_off",
            command=f"sudo nvidia-smi -pm 0{chosen}",
            because="only if a reset is really needed: persistence mode keeps the device open, and holds no memory",
        )
    if clients and any(row["nobody_open"] is True for row in match.rows):
        yield ThenEntry(
            kind="module_reload",
            command=f"sudo modprobe -r {' '.join(dict.fromkeys(clients))}",
            because="no process has the device open; these modules use the driver from inside the kernel",
        )


def _elsewhere(sure: Mapping[str, Match]) -> Iterator[ThenEntry]:
    if _WITHHELD in sure:
        yield ThenEntry(
            kind="collect",
            command=(
                "sudo nvidia-smi --query-gpu=index,memory.used --format=csv; "
                "sudo nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv"
            ),
            because="the sizes are known to root, on the host, or in the owner's own tools (Windows: the Task Manager)",
        )
    if _BROKEN in sure:
        files = " ".join(f"/proc/{pid}/cgroup" for pid in sure[_BROKEN].pids[:MAX_NAMED])
        yield ThenEntry(
            kind="collect",
            command=f"cat {files}",
            because="its work is dead: end it by its own way, which the container or unit in its cgroup names",
        )
        yield ThenEntry(kind="verify", command=FIGURES, because="the memory comes back when the process ends")
    if _HIDDEN in sure:
        yield ThenEntry(
            kind="ask_owner",
            command=None,
            because="a hidden process means that somebody else has root here; keep the evidence, change nothing",
        )
