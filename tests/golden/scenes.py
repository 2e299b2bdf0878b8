"""Hosts drawn as tables and written as raw tool output, for situations that no capture has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

BOOT = datetime(2026, 11, 30, 8, 0, 0, tzinfo=UTC)
LOOK_ONE = datetime(2026, 11, 30, 19, 40, 0, tzinfo=UTC)
ACTION = LOOK_ONE + timedelta(seconds=5)
LOOK_TWO = LOOK_ONE + timedelta(seconds=10)
UUID = "GPU-5e1f0a00-0000-4000-8000-00000000000a"
DRIVER_MIB = 9
PS = "ps -eo pid,ppid,pgid,sid,user:12,stat,lstart,etimes,nlwp,rss,wchan:24,comm,args --cols 400"


@dataclass(frozen=True)
class P:
    """One process: number, parent, group, session, what it is called, what it holds."""

    pid: int
    ppid: int
    pgid: int
    line: str
    mib: int = 0
    user: str = "root"
    sid: int = 0
    state: str = "S"
    age_s: int = 600
    """Age at the first look."""
    comm: str = ""

    @property
    def name(self) -> str:
        """comm, from the command line where none is given."""
        return (self.comm or self.line.split()[0].rsplit("/", 1)[-1])[:15]


@dataclass(frozen=True)
class Scene:
    """Before, a command, after."""

    before: Sequence[P]
    after: Sequence[P]
    command: str
    user: str = "root"
    log: str = ""
    fuser: bool = True
    extra: dict[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> Path:
        """As a directory that ``explain`` reads."""
        for name, moment, table in (("before", LOOK_ONE, self.before), ("after", LOOK_TWO, self.after)):
            if table:
                _look(root / name, moment, table, self.fuser)
        action = {
            "t0": ACTION.isoformat(),
            "t1": (ACTION + timedelta(seconds=0.02)).isoformat(),
            "argv": ["bash", "stop.sh"],
            "script_text": self.command + "\n",
            "rc": 0,
            "out": "",
            "err": "",
            "user": self.user,
        }
        (root / "kill-commands.json").write_text(json.dumps([action], indent=1))
        if self.log:
            (root / "server.log").write_text(self.log)
        return root


def dead(table: Sequence[P], *pids: int) -> list[P]:
    """The table after these died: gone, their children taken over by PID 1."""
    return [replace(p, ppid=1) if p.ppid in pids else p for p in table if p.pid not in pids]


def _look(folder: Path, moment: datetime, table: Sequence[P], fuser: bool) -> None:
    folder.mkdir(parents=True)
    stamp = moment.isoformat()
    later = int((moment - LOOK_ONE).total_seconds())
    rows = [
        P(1, 0, 1, "/sbin/init", sid=1, age_s=40000),
        P(2, 0, 0, "[kthreadd]", age_s=40000),
        *table,
        P(90001, 90000, 90000, PS, sid=90000, state="R", age_s=-later),
        P(90000, 1, 90000, "-bash", sid=90000, age_s=5000),
    ]
    lines = [
        f"# {stamp} $ {PS}",
        "# rc=0",
        "  PID  PPID  PGID   SID USER STAT STARTED ELAPSED NLWP RSS WCHAN COMMAND COMMAND",
    ]
    for p in rows:
        age = p.age_s + later
        started = (moment - timedelta(seconds=age)).strftime("%a %b %d %H:%M:%S %Y")
        line = f"[{p.name}] <defunct>" if p.state == "Z" else p.line
        sid = p.sid or p.pgid
        lines.append(f"{p.pid} {p.ppid} {p.pgid} {sid} {p.user} {p.state} {started} {age} 4 1000 - {p.name} {line}")
    (folder / "ps-tree.txt").write_text("\n".join(lines) + "\n")
    holders = [p for p in table if p.mib]
    apps = "".join(f"{UUID}, {p.pid}, {p.line.split()[0]}, {p.mib} MiB\n" for p in holders)
    query = "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv"
    head = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
    (folder / "query-apps.csv").write_text(f"# {stamp} $ {query}\n# rc=0\n{head}{apps}")
    used = sum(p.mib for p in holders) + (DRIVER_MIB if holders else 0)
    query = "nvidia-smi --query-gpu=index,uuid,name,memory.total,memory.reserved,memory.used --format=csv"
    head = "index, uuid, name, memory.total [MiB], memory.reserved [MiB], memory.used [MiB]\n"
    row = f"0, {UUID}, NVIDIA H200, 143771 MiB, 616 MiB, {used} MiB\n"
    (folder / "query-gpu.csv").write_text(f"# {stamp} $ {query}\n# rc=0\n{head}{row}")
    if fuser:
        listing = [
            f"# {stamp} $ fuser -v /dev/nvidia* 2>&1",
            "# rc=0",
            "                     USER        PID ACCESS COMMAND",
        ]
        start = "/dev/nvidia0:        "
        for p in holders:
            listing.append(f"{start}{p.user:<9}{p.pid:>6} F...m {p.name}")
            start = " " * 21
        (folder / "fuser.txt").write_text("\n".join(listing) + "\n")


def server(
    pid: int, group: int | None = None, *, ppid: int = 1, mib: int = 20000, user: str = "root", port: int = 8000
) -> list[P]:
    """A vLLM server with tensor parallelism 2: API server, tracker, engine, two workers."""
    group = pid if group is None else group
    line = f"/usr/bin/python3 -m vllm.entrypoints.openai.api_server --port {port}"
    tracker = "/usr/bin/python3 -c from multiprocessing.resource_tracker import main;main(3)"
    return [
        P(pid, ppid, group, line, user=user, comm="python3"),
        P(pid + 1, pid, group, tracker, user=user, comm="python3"),
        P(pid + 2, pid, group, "VLLM::EngineCore", user=user),
        P(pid + 3, pid + 2, group, "VLLM::Worker_TP0", mib=mib, user=user),
        P(pid + 4, pid + 2, group, "VLLM::Worker_TP1", mib=mib, user=user),
    ]
