"""Process tables as ps prints them, made of a few words a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpudiag.report.simulation import Simulation
from gpudiag.simulate import Question, simulate

HEADER = (
    "    PID    PPID    PGID     SID USER                 STAT                  STARTED ELAPSED NLWP "
    "COMMAND         COMMAND"
)
WHEN = "2026-11-30T21:15:18.846Z"


@dataclass(frozen=True)
class Row:
    """One process; ``group`` 0 is its own."""

    pid: int
    args: str
    ppid: int = 1
    group: int = 0
    session: int = 0
    user: str = "root"
    stat: str = "S"
    comm: str = ""

    def line(self) -> str:
        """As printed."""
        group, comm = self.group or self.pid, self.comm or self.args.split(" ")[0].rsplit("/", 1)[-1][:15]
        session = self.session or group
        start = "Mon Nov 30 21:15:15 2026"
        return (
            f"{self.pid:7} {self.ppid:7} {group:7} {session:7} {self.user:<20} {self.stat:<4} {start} "
            f"{3:7} {1:4} {comm:<15} {self.args}"
        )


KERNEL = (Row(1, "/sbin/init"), Row(2, "[kthreadd]", ppid=0, comm="kthreadd"))
API = "/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model m"
VLLM = (
    Row(500, API),
    Row(501, "VLLM::EngineCore", ppid=500, group=500),
    Row(502, "VLLM::Worker_TP0", ppid=501, group=500),
    Row(503, "VLLM::Worker_TP1", ppid=501, group=500),
)


def write(folder: Path, rows: Iterable[Row], *, whole: bool = True, name: str = "before") -> Path:
    """One look; ``whole``: with PID 1 and 2, and by the command that lists everybody."""
    look = folder / name
    look.mkdir(parents=True)
    which = "-eo" if whole else "-p 500,501 -o"
    command = f"ps {which} pid,ppid,pgid,sid,user:20,stat,lstart,etimes,nlwp,comm,args"
    lines = [f"# {WHEN} $ {command}", "# rc=0", HEADER, *(row.line() for row in [*(KERNEL if whole else ()), *rows])]
    (look / "ps.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def ask(folder: Path, command: str, **question: object) -> Simulation:
    """The answer about one command."""
    return simulate([command], [folder], Question(**question))[0]  # type: ignore[arg-type]


UNIT = "/system.slice/vllm.service"
BOX = "/system.slice/docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope"


def write_groups(folder: Path, rows: Iterable[Row], groups: dict[int, str], *, name: str = "before") -> Path:
    """The table, and the raw ``/proc/PID/cgroup`` of everybody; who is not in ``groups`` is in the session's."""
    listed = list(rows)
    write(folder, listed, name=name)
    for row in (*KERNEL, *listed):
        place = folder / name / "proc" / str(row.pid)
        place.mkdir(parents=True)
        (place / "cgroup").write_text(f"0::{groups.get(row.pid, '/user.slice/session-1.scope')}\n", encoding="utf-8")
        state = row.stat[0]
        numbers = " ".join(["0"] * 30)
        comm = row.comm or row.args.split(" ")[0].rsplit("/", 1)[-1][:15]
        group = row.group or row.pid
        stat = f"{row.pid} ({comm}) {state} {row.ppid} {group} {row.session or group} {numbers}"
        (place / "stat").write_text(stat + "\n", encoding="utf-8")
        (place / "cmdline").write_text("" if row.comm == "kthreadd" else row.args.replace(" ", "\0") + "\0")
    return folder
