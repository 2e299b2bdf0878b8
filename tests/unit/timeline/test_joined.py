"""A kill that reached nobody does not separate what was asked before it from what was asked after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.evidence import read_input
from gpudiag.parse import parse
from gpudiag.timeline.joined import join_looks

LISTED = "u@n7:~$ nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader\n"
GONE = "7400, [Not Found], 6120 MiB\n"
KILLED = "u@n7:~$ kill -9 7400\nbash: kill: (7400) - No such process\n"
AFTER = "u@n7:~$ ps -o pid,ppid,args -p 7431\n    PID    PPID COMMAND\n   7431       1 python3 fit.py\n"


def _looks(folder: Path, text: str) -> tuple[int, list[tuple[int, ...]]]:
    path = folder / "session.txt"
    path.write_text(text)
    before = parse([read_input(path, "I1")])
    joined = join_looks(before)
    return len(joined.looks), [row.pids for row in joined.inquiries[len(before.inquiries) :]]


def test_the_looks_are_one_and_nobody_was_found(tmp_path: Path) -> None:
    assert _looks(tmp_path, LISTED + GONE + KILLED + AFTER) == (1, [(7400,)])


def test_a_list_without_names_is_joined_as_well(tmp_path: Path) -> None:
    listed = LISTED.replace("process_name,", "") + "7400, 6120 MiB\n"
    assert _looks(tmp_path, listed + KILLED + AFTER) == (1, [(7400,)])


@pytest.mark.parametrize(
    "text",
    [
        LISTED + "7400, python3, 6120 MiB\n" + KILLED + AFTER,
        LISTED + GONE + "u@n7:~$ kill -9 7400\n" + AFTER,
        LISTED + GONE + KILLED.replace("-9 7400", "-9 7400 7431") + AFTER,
        LISTED + GONE + KILLED.replace("-9 7400", "-9 7400; pkill fit") + AFTER,
    ],
    ids=["it was alive when listed", "kill said nothing", "another PID too", "another command too"],
)
def test_what_may_have_changed_something_separates(tmp_path: Path, text: str) -> None:
    assert _looks(tmp_path, text) == (2, [])
