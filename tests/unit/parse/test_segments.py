"""One text that holds several outputs, as the captured views do."""

from __future__ import annotations

from gpudiag.evidence import read_input
from gpudiag.parse import Parsed, parse
from tests.unit.parse.exhibits import H200, parsed


def view(name: str) -> Parsed:
    """One file of the captured views."""
    return parse([read_input(H200 / "views" / f"{name}.txt", "I1")])


def reached(found: Parsed) -> list[tuple[str, str, bool | None]]:
    """Coverage, in short."""
    return [(row.source, row.outcome, row.complete) for row in found.coverage]


def test_a_new_pid_namespace() -> None:
    found = view("pidns")
    assert [row.used_mib for row in found.samples] == [53698.0]
    assert found.bookings == ()
    assert [row.pid for row in found.processes] == [1, 6]
    assert reached(found) == [
        ("gpu memory", "ok", True),
        ("compute processes", "ok", True),
        ("compute processes", "ok", True),
        ("process table", "ok", True),
        ("open handles", "ok", True),
    ]


def test_a_user_who_sees_names_and_no_descriptors() -> None:
    found = view("nobody")
    assert [row.pid for row in found.bookings] == [699, 700, 1461, 1462, 700, 699, 1461, 1462]
    assert found.handles == ()
    assert ("open handles", "ok", True) in reached(found)


def test_hidden_processes() -> None:
    found = view("hidepid")
    assert [(row.pid, row.user) for row in found.processes] == [(1520, "nobody"), (1523, "nobody")]
    assert [row.as_root for row in found.coverage if row.source == "process table"] == [False]


def test_two_queries_without_headings_are_told_apart() -> None:
    command = (
        "nvidia-smi --query-gpu=index,memory.used --format=csv,noheader;"
        " nvidia-smi --query-compute-apps=pid,name --format=csv,noheader; ps -o pid=,ppid= -p 7"
    )
    found = parsed("0, 100 MiB\n1, 200 MiB\n7, python3\n      7       1\n", command)
    assert [(row.gpu.index, row.used_mib) for row in found.samples] == [(0, 100.0), (1, 200.0)]
    assert [(row.pid, row.name) for row in found.bookings] == [(7, "python3")]
    assert [(row.pid, row.ppid) for row in found.processes] == [(7, 1)]


def test_two_tables_in_one_output() -> None:
    table = "\n".join((H200 / "idle" / "after" / "nvidia-smi.txt").read_text().split("\n")[2:])
    found = parsed(table + table, "nvidia-smi; sleep 1; nvidia-smi")
    assert len(found.samples) == 2
    assert len(found.coverage) == 4


def test_output_of_other_commands_is_left_alone() -> None:
    found = parsed("total 4\n-rw-r--r-- 1 root root 7 Nov 30 21:41 pid, name\n", "ls -l")
    assert [(row.source, row.outcome) for row in found.coverage] == [("text", "not_understood")]
    assert "2 lines" in str(found.coverage[0].because)
    assert found.damage == ()


def test_prose_without_a_command_is_damage() -> None:
    assert [row.line for row in parsed("It was a dark and stormy night.\n").damage] == [3]
