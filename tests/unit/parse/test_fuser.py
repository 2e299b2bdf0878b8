"""``fuser`` in its three forms, and what its silence says."""

from __future__ import annotations

import pytest

from gpudiag.parse import parse
from tests.unit.parse.exhibits import capture, evidence, exhibit, parsed

VERBOSE = """\
                     USER        PID ACCESS COMMAND
/dev/nvidia0:        root        699 F...m VLLM::Worker_TP
                     root       1247 F.... python data_loa
                     1000       1300 ....m python3
                     root     kernel mount /dev/nvidia0
/dev/nvidiactl:      root        699 F...m VLLM::Worker_TP
"""


def test_the_table() -> None:
    found = parsed(VERBOSE, "fuser -v /dev/nvidia* 2>&1")
    assert [(row.pid, row.path, row.how) for row in found.handles] == [
        (699, "/dev/nvidia0", "fd"),
        (699, "/dev/nvidia0", "map"),
        (1247, "/dev/nvidia0", "fd"),
        (1300, "/dev/nvidia0", "map"),
        (699, "/dev/nvidiactl", "fd"),
        (699, "/dev/nvidiactl", "map"),
    ]
    assert [(row.pid, row.user, row.uid, row.comm, row.text_from) for row in found.processes] == [
        (699, "root", 0, "VLLM::Worker_TP", "fuser"),
        (1247, "root", 0, "python data_loa", "fuser"),
        (1300, None, 1000, "python3", "fuser"),
    ]
    assert [(row.source, row.complete) for row in found.coverage] == [("open handles", True)]


def test_the_plain_form_has_a_letter_for_maps_only() -> None:
    found = parsed("/dev/nvidia0:          699   700m\n/dev/nvidia1:\n", "fuser /dev/nvidia0 /dev/nvidia1")
    assert [(row.pid, row.path, row.how) for row in found.handles] == [
        (699, "/dev/nvidia0", "fd"),
        (700, "/dev/nvidia0", "map"),
    ]
    assert [row.complete for row in found.coverage] == [False]


def test_bare_pids_do_not_tell_how() -> None:
    found = parsed("  699   700\n", "fuser /dev/nvidia0 2>/dev/null")
    assert [(row.pid, row.path, row.how) for row in found.handles] == [
        (699, "/dev/nvidia0", "open"),
        (700, "/dev/nvidia0", "open"),
    ]


def test_a_count_is_not_a_pid() -> None:
    assert parsed("24\n", "fuser /dev/nvidia0 2>/dev/null | wc -w").handles == ()


@pytest.mark.parametrize(
    ("user", "command", "as_root"),
    [
        ("root", "fuser -v /dev/nvidia*", True),
        ("alice", "fuser -v /dev/nvidia*", False),
        ("alice", "sudo fuser -v /dev/nvidia*", True),
        (None, "fuser -v /dev/nvidia*", None),
        ("root", "su -s /bin/bash nobody -c 'fuser -v /dev/nvidia*'", None),
    ],
)
def test_silence_is_an_answer_whose_reach_depends_on_the_reader(user: str | None, command: str, as_root: bool) -> None:
    found = parse([evidence(exhibit("", command, exit_code=1, user=user))])
    assert [(row.source, row.outcome, row.complete, row.as_root) for row in found.coverage] == [
        ("open handles", "ok", True, as_root)
    ]


def test_another_tool_s_failure_is_not_fuser_s() -> None:
    text = "rc=1\nlsof: error while loading shared libraries: libtirpc.so.3: cannot open\n"
    found = parsed(text, "fuser -v /dev/nvidia* 2>&1; echo rc=$?; lsof /dev/nvidia* 2>&1 | head")
    assert [(row.source, row.outcome) for row in found.coverage] == [("open handles", "ok")]


def test_fuser_names_the_child_that_nvidia_smi_does_not() -> None:
    found = capture("forked-child-holds")
    booked = {row.pid for row in found.bookings if row.at.look == "I1:after"}
    opened = {row.pid for row in found.handles if row.cited.member == "after/fuser.txt"}
    assert 1225 in booked - opened
    assert 1247 in opened - booked
