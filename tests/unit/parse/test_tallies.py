"""A counted list of a device's users is one of each of them, or of nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.evidence import read_input
from gpudiag.model import Process
from gpudiag.parse import parse

ASKED = "ps -o ppid,user,comm -p $(fuser /dev/nvidia0 2>/dev/null | xargs | tr ' ' ,) | sort | uniq -c"
HEADING = "      1    PPID USER     COMMAND\n"


def _counted(folder: Path, tally: str, command: str = ASKED) -> list[Process]:
    path = folder / "session.txt"
    path.write_text(
        "root@n7:~# fuser /dev/nvidia0\n/dev/nvidia0:         3101m 3103m 3105m\n"
        f"root@n7:~# {command}\n{tally}root@n7:~# date\n"
    )
    return list(parse([read_input(path, "I1")]).processes)


def test_each_pid_gets_what_all_have_in_common(tmp_path: Path) -> None:
    found = _counted(tmp_path, HEADING + "      3       1 user     pt_data_worker\n")
    assert [(row.pid, row.ppid, row.user, row.comm) for row in found] == [
        (pid, 1, "user", "pt_data_worker") for pid in (3101, 3103, 3105)
    ]


@pytest.mark.parametrize(
    ("tally", "command"),
    [
        (HEADING + "      2       1 user     pt_data_worker\n", ASKED),
        (HEADING + "      2       1 user     pt_data_worker\n      1    2900 other    python\n", ASKED),
        ("      3       1 user     pt_data_worker\n", ASKED),
        (HEADING + "      3       1 user     pt_data_worker\n", ASKED.replace("nvidia0", "nvidia1")),
        (HEADING + "      3       1 user     pt_data_worker\n", ASKED.replace("| sort", "| grep user | sort")),
    ],
    ids=["fewer", "two kinds", "no heading", "another device", "filtered"],
)
def test_a_count_that_does_not_fit_is_of_nobody(tmp_path: Path, tally: str, command: str) -> None:
    assert not [row for row in _counted(tmp_path, tally, command) if row.comm == "pt_data_worker" and row.ppid == 1]
