"""What tools print instead of a figure, refused resets, loaded modules, and questions about one PID."""

from __future__ import annotations

import pytest

from tests.unit.parse.exhibits import parsed

BUSY = """The following GPUs could not be reset:
  GPU 00000000:17:00.0: In use by another client

1 device is currently being used by one or more other processes (e.g. Fabric Manager, CUDA application).
"""


def test_words_in_place_of_figures_keep_what_they_say() -> None:
    text = "index, utilization.gpu [%], memory.used [MiB]\n0, [GPU requires reset], 512 MiB\n1, 97 %, [N/A]\n"
    found = {(row.gpu.index, row.field): (row.value, row.words) for row in parsed(text).readings}
    assert found == {
        (0, "utilization.gpu"): (None, "[GPU requires reset]"),
        (1, "utilization.gpu"): (97.0, None),
        (1, "memory.used"): (None, "[N/A]"),
    }


def test_a_lost_gpu_between_the_rows() -> None:
    text = (
        "index, memory.used [MiB]\n0, 5 MiB\nUnable to determine the device handle for GPU 0000:41:00.0: GPU is lost.\n"
    )
    (row,) = parsed(text).readings
    assert (row.field, row.gpu.bus_id) == ("device", "00000000:41:00.0")


def test_a_size_that_is_withheld() -> None:
    text = "pid, process_name, used_gpu_memory [MiB]\n71, python3, [Insufficient Permissions]\n72, python3, 12 MiB\n"
    assert [(row.pid, row.withheld) for row in parsed(text).bookings] == [
        (71, "[Insufficient Permissions]"),
        (72, None),
    ]


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        (BUSY, "gpu_reset", "in_use"),
        ("Resetting GPU 00000000:17:00.0 is not supported.", "gpu_reset", "not_supported"),
        ("modprobe: FATAL: Module nvidia_uvm is in use.", "module_unload", "in_use"),
        ("rmmod: ERROR: Module nvidia is in use by: nvidia_uvm nvidia_modeset", "module_unload", "in_use"),
        (
            "Warning: MIG mode is in pending enable state for GPU 00000000:17:00.0:In use by another client",
            "mig_change",
            "in_use",
        ),
        (
            'time="2026-01-02T03:04:05Z" level=error msg="  GPU 00000000:17:00.0: In use by another client"',
            "gpu_reset",
            "in_use",
        ),
    ],
)
def test_refusals(text: str, kind: str, reason: str) -> None:
    found = parsed(text, "some-tool")
    assert [(row.kind, row.reason) for row in found.refusals] == [(kind, reason)]
    assert not found.damage


def test_loaded_modules() -> None:
    text = "nvidia_drm   131072  4\nnvidia_modeset 1638400 5 nvidia_drm\n"
    found = parsed(text, "lsmod | grep ^nvidia").modules
    assert [(row.name, row.uses, row.used_by) for row in found] == [
        ("nvidia_drm", 4, ()),
        ("nvidia_modeset", 5, ("nvidia_drm",)),
    ]


@pytest.mark.parametrize(
    ("text", "command", "expected"),
    [
        ("rc=0\n", "kill -0 812; echo rc=$?", [(812, True, "signal")]),
        ("bash: kill: (812) - No such process\n", "kill -0 812", [(812, False, "signal")]),
        ("bash: kill: (812) - Operation not permitted\n", "kill -0 812", [(812, True, "signal")]),
        ("rc=1\n", "kill -0 812; echo rc=$?", []),
        ("", "ps -ef -p 7 | grep 812", []),
        ("", "ps aux | grep 812 | grep -v grep", [(812, False, "table")]),
        ("", "ps -u me | grep 812", []),
        ("root  812  0.0  0.0  1  1 ?  S  10:00  0:00 sleep 9\n", "ps aux | grep 812 | grep -v grep", []),
        ("", "ls -d /proc/[0-9]* | grep -w 812", [(812, False, "table")]),
    ],
)
def test_questions_about_one_pid(text: str, command: str, expected: list[tuple[int, bool, str]]) -> None:
    assert [(row.pid, row.exists, row.how) for row in parsed(text, command).probes] == expected


@pytest.mark.parametrize(
    ("command", "text", "outcome", "complete"),
    [
        ("dmesg -T", "", "ok", True),
        ("dmesg | grep -c Xid", "0\n", "ok", None),
        ("journalctl -k --since -2h | grep -e 'blocked for'", "", "ok", False),
        ("dmesg", "dmesg: read kernel buffer failed: Operation not permitted\n", "denied", False),
    ],
)
def test_how_far_a_look_at_the_kernel_log_reaches(command: str, text: str, outcome: str, complete: bool | None) -> None:
    rows = [row for row in parsed(text, command).coverage if row.source == "kernel log"]
    assert [(row.outcome, row.complete) for row in rows] == [(outcome, complete)]


def test_a_start_that_saw_memory_come_free() -> None:
    line = "Error in memory profiling. Initial free memory 10.00 GiB, current free memory 12.50 GiB. This happens when"
    (event,) = parsed(f"(EngineCore pid=71) AssertionError: {line}\n", member="server.log").log_events
    assert (event.kind, event.mib, event.pid) == ("memory_freed", 2560.0, 71)


def test_a_suspended_machine() -> None:
    lines = "Jan  2 03:04:05 box kernel: PM: suspend entry (deep)\nJan  2 09:04:05 box kernel: PM: suspend exit\n"
    assert [event.kind for event in parsed(lines, "journalctl -k").kernel_events] == ["suspend", "suspend"]
