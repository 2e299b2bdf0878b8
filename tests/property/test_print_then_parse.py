"""Whatever a table holds, reading what a tool prints of it gives the table back."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudiag.evidence import Exhibit, Input, LookName
from gpudiag.evidence.prompts import clean_lines, typed_commands
from gpudiag.parse import Parsed, parse
from gpudiag.parse.commands import shown_commands
from gpudiag.parse.listings import LISTINGS
from gpudiag.parse.replies import is_reply
from gpudiag.parse.values import is_non_value


@dataclass(frozen=True)
class Row:
    """One process as the tables show it."""

    pid: int
    ppid: int
    user: str
    state: str
    comm: str
    args: str
    mib: int
    gpu: int


WORD = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:-]{0,13}", fullmatch=True)
ARGS = (
    st.lists(st.from_regex(r"[A-Za-z0-9_./:=,-]{1,20}", fullmatch=True), min_size=1, max_size=6)
    .map(" ".join)
    .filter(lambda text: not is_non_value(text))
)
"""A process may call itself ``N/A``; that cannot be told from a missing name."""
PID = st.integers(1, 4_194_304)
ROW = st.builds(
    Row,
    pid=PID,
    ppid=PID,
    user=st.from_regex(r"[a-z][a-z0-9_-]{0,7}", fullmatch=True),
    state=st.sampled_from(["R", "S", "D", "T"]),
    comm=WORD,
    args=ARGS,
    mib=st.integers(0, 999_999),
    gpu=st.integers(0, 15),
)
ROWS = st.lists(ROW, min_size=1, max_size=12, unique_by=lambda row: row.pid)


def parsed(text: str, command: str | None) -> Parsed:
    """What the parsers make of one output."""
    exhibit = Exhibit("I1", "x.txt", "", "I1:x", command, None, None, None, 1, text)
    return parse([Input("I1", "x", "transcript", True, (exhibit,), (LookName("I1:x", "x", ""),), (), ())])


def print_ps(rows: list[Row]) -> str:
    """``ps -eo pid,ppid,user,stat,comm,args``."""
    lines = ["    PID    PPID USER     STAT COMMAND         COMMAND"]
    lines += [f"{r.pid:7d} {r.ppid:7d} {r.user:8s} {r.state:4s} {r.comm:15s} {r.args}" for r in rows]
    return "\n".join(lines) + "\n"


def print_csv(rows: list[Row]) -> str:
    """``nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv``."""
    lines = ["gpu_uuid, pid, process_name, used_gpu_memory [MiB]"]
    lines += [f"GPU-{r.gpu}, {r.pid}, {r.args}, {r.mib} MiB" for r in rows]
    return "\n".join(lines) + "\n"


def print_table(rows: list[Row]) -> str:
    """Plain ``nvidia-smi`` from the process list on."""
    edge = "+" + "-" * 89 + "+"
    lines = [
        edge,
        f"| {'Processes:':87s} |",
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|" + "=" * 89 + "|",
    ]
    lines += [f"| {r.gpu:4d}   N/A  N/A  {r.pid:14d}      C   {r.comm:29s} {r.mib:12d}MiB |" for r in rows]
    return "\n".join([*lines, edge]) + "\n"


def print_fuser(rows: list[Row]) -> str:
    """``fuser -v /dev/nvidia*``, all on one device."""
    lines = ["                     USER        PID ACCESS COMMAND"]
    for number, row in enumerate(rows):
        path = "/dev/nvidia0:" if number == 0 else ""
        lines.append(f"{path:20s} {row.user:8s} {row.pid:7d} F...m {row.comm}")
    return "\n".join(lines) + "\n"


def print_lsof(rows: list[Row]) -> str:
    """``lsof /dev/nvidia0``."""
    lines = ["COMMAND       PID     USER   FD   TYPE  DEVICE SIZE/OFF NODE NAME"]
    lines += [f"{r.comm[:9]:9s} {r.pid:7d} {r.user:>8s}   31u   CHR   195,0      0t0  512 /dev/nvidia0" for r in rows]
    return "\n".join(lines) + "\n"


def print_gpustat(rows: list[Row]) -> str:
    """``gpustat -cup``: one GPU a process here."""
    users = [f"{r.user}:{r.comm.replace(':', '')}/{r.pid}({r.mib}M)" for r in rows]
    sizes = [f"{r.mib:5d} / 999999 MB" for r in rows]
    return "".join(f"[{n}] A100 | 52'C, 9 % | {sizes[n]} | {user}\n" for n, user in enumerate(users))


def print_pstree(rows: list[Row]) -> str:
    """``pstree -p``: all are children of the first."""
    first, *rest = rows
    head = f"{first.comm}({first.pid})"
    if not rest:
        return head + "\n"
    lines = []
    for number, row in enumerate(rest):
        last = number == len(rest) - 1
        if number == 0:
            link = "---" if last else "-+-"
            lines.append(f"{head}{link}{row.comm}({row.pid})")
        else:
            lines.append(" " * (len(head) + 1) + ("`-" if last else "|-") + f"{row.comm}({row.pid})")
    return "\n".join(lines) + "\n"


@given(ROWS)
def test_ps(rows: list[Row]) -> None:
    found = parsed(print_ps(rows), "ps -eo pid,ppid,user,stat,comm,args")
    assert [(p.pid, p.ppid, p.user, p.state, p.comm, p.cmdline) for p in found.processes] == [
        (r.pid, r.ppid, r.user, r.state, r.comm, r.args) for r in rows
    ]


@given(ROWS)
def test_csv(rows: list[Row]) -> None:
    found = parsed(print_csv(rows), "nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv")
    assert [(b.gpu.uuid, b.pid, b.name, b.mib) for b in found.bookings] == [
        (f"GPU-{r.gpu}", r.pid, r.args, float(r.mib)) for r in rows
    ]


@given(ROWS)
def test_table(rows: list[Row]) -> None:
    found = parsed(print_table(rows), "nvidia-smi")
    assert [(b.gpu.index, b.pid, b.name, b.mib) for b in found.bookings] == [
        (r.gpu, r.pid, r.comm, float(r.mib)) for r in rows
    ]


@given(ROWS, st.sampled_from(["fuser", "lsof"]))
def test_open_devices(rows: list[Row], tool: str) -> None:
    text = print_fuser(rows) if tool == "fuser" else print_lsof(rows)
    found = parsed(text, "fuser -v /dev/nvidia*" if tool == "fuser" else "lsof /dev/nvidia0")
    assert [h.pid for h in found.handles if h.how == "fd"] == [r.pid for r in rows]
    assert [(p.pid, p.user) for p in found.processes] == [(r.pid, r.user) for r in rows]


@given(ROWS)
def test_gpustat(rows: list[Row]) -> None:
    found = parsed(print_gpustat(rows), "gpustat -cup")
    assert [(s.gpu.index, s.used_mib) for s in found.samples] == [(n, float(r.mib)) for n, r in enumerate(rows)]
    assert [(b.pid, b.mib) for b in found.bookings] == [(r.pid, float(r.mib)) for r in rows]


@given(ROWS)
def test_pstree(rows: list[Row]) -> None:
    found = parsed(print_pstree(rows), "pstree -p")
    parents = {process.pid: process.ppid for process in found.processes}
    assert parents == {row.pid: None if row is rows[0] else rows[0].pid for row in rows}


COMMANDS = [
    "nvidia-smi -L", "gpustat -cup", "nvitop -1", "top -b -n1", "htop", "pstree -p", "pstree -pa",
    "docker ps",
    "docker ps --format '{{.ID}} {{.Status}} {{.Names}}'",
    "docker inspect -f '{{.State.Pid}}{{.Name}}' a", "docker top a", "kubectl get pods", "squeue -h",
    "systemctl status a", "systemctl show a", "systemctl is-active a b",
    "lsof -t /dev/nvidia0", "lsof", "ss -ltnp", "netstat -ltnp", "cat /proc/driver/nvidia/version",
    "cat /sys/module/nvidia/version", "cat /proc/7/status", "cat /proc/7/stack", "cat /proc/7/wchan",
    "cat /proc/7/cmdline | tr '\\0' ' '", "ls -l /proc/7/fd", "ps -eLf", "ps axjf",
]  # fmt: skip
PIECES = [
    "\n", " ", "  ", "\t", "│", "╒══", "├─", "└─", "|-", "`-", "-+-", "---", "PID", "USER", "COMMAND", "7", "4711",
    "a(7)",
    "a,7", "{a}(8)", "[0] X | 1'C, 2 % | 3 / 4 MB | a:b/7(5M)", "GPU 0: X (UUID: GPU-1)", "top - 09:31:18 ",
    "LISTEN 0 1 0.0.0.0:80 0.0.0.0:* users:((\"a\",pid=7,fd=1))", "● a.service - A", "   Main PID: 7 (a)",
    "MainPID=7",
    "[<0>] f+0x1/0x2 [m]", "lrwx------ 1 a a 64 Feb 1 1:1 3 -> /dev/nvidia0", "State:\tR (running)",
    "Pid:\t7",
    "a 7 u mem CHR 195,0 512 /dev/nvidia0", "5f0c2b7d91aa ", "0", "\0", "99999999999999999999", "{{", "}}", "(",
    ")", "…",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=80).map("".join), st.sampled_from(COMMANDS))
def test_scraps_of_every_format(text: str, command: str) -> None:
    found = parsed(text, command)
    rows = (*found.processes, *found.containers, *found.units, *found.listeners, *found.stacks, *found.handles)
    lines = text.count("\n") + 1
    assert all(row.cited.line is not None and 1 <= row.cited.line <= lines for row in rows)
    assert all(0 < process.pid <= 4_194_304 for process in found.processes)


@given(st.text(max_size=400), st.sampled_from(COMMANDS))
def test_any_text(text: str, command: str) -> None:
    found = parsed(text, command)
    assert len(found.coverage) <= text.count("\n") + 3


HOSTILE = [
    " " * 8000, "a " * 4000, "1 " * 4000, "- " * 4000, "│ " * 4000, "|-" * 4000, "a(1)-+-" * 1100, "users:((" * 1000,
    "LISTEN 0 0 " + "a:" * 4000, "[0] " + "a " * 4000 + "|", "{{.ID}}" * 1000, "a 1 u 1u CHR " + "/ " * 4000,
    "Name:" + "\t" * 8000, "● " + "a" * 8000, "a@b:" + "x" * 8000, "+ " * 4000, "[" * 8000, "^C" * 4000,
    "1 a 0 0 " + "1 " * 4000, "sh: " + "a: " * 2600, "A" * 8000 + "=", "GPU 0: " + "( " * 4000,
]  # fmt: skip


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_no_line_takes_long(line: str) -> None:
    started = time.process_time()
    for listing in LISTINGS:
        listing.begins(line)
        listing.continues(line)
        for command in COMMANDS:
            for shown in shown_commands(command):
                listing.headless(shown, line)
    is_reply(line[:1000])
    list(typed_commands(clean_lines("\n".join((line * 7, "$ " + line * 7, "a@b:~$ docker exec " + line))), False))
    assert parsed(line, "x").looks
    assert time.process_time() - started < 1


@settings(max_examples=20)
@given(st.sampled_from(HOSTILE), st.sampled_from([None, *COMMANDS]))
def test_a_text_of_such_lines_takes_linear_time(line: str, command: str | None) -> None:
    started = time.process_time()
    found = parsed("\n".join([line] * 20), command)
    assert time.process_time() - started < 5
    assert found.looks
