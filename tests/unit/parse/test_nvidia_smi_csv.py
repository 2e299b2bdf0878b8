"""The CSV of ``--query-gpu`` and ``--query-compute-apps``: any fields, any order, with and without heading."""

from __future__ import annotations

import pytest

from gpudiag.model import GpuRef
from gpudiag.parse import parse
from tests.unit.parse.exhibits import evidence, exhibit, parsed

APPS = "nvidia-smi --query-compute-apps="
GPUS = "nvidia-smi --query-gpu="
BARE = " --format=csv,noheader"


def test_fields_come_from_the_heading_in_any_order() -> None:
    found = parsed(
        "used_gpu_memory [MiB], process_name, pid, gpu_bus_id\n3590 MiB, python3, 1410, 00000000:00:06.0\n",
        APPS + "used_memory,name,pid,gpu_bus_id --format=csv",
    )
    (row,) = found.bookings
    assert (row.pid, row.mib, row.name, row.gpu) == (1410, 3590.0, "python3", GpuRef(bus_id="00000000:00:06.0"))


def test_fields_come_from_the_command_without_a_heading() -> None:
    (row,) = parsed("1410, [No data], 3590\n", APPS + "pid,name,used_memory --format=csv,noheader,nounits").bookings
    assert (row.pid, row.mib, row.name, row.name_missing) == (1410, 3590.0, None, "[No data]")


def test_the_command_may_stand_inside_ssh() -> None:
    command = f"ssh -o StrictHostKeyChecking=no root@gpu-node '{APPS}pid,name{BARE}'"
    assert [row.pid for row in parsed("186520, VLLM::Worker_TP0\n", command).bookings] == [186520]


def test_the_heading_s_unit_holds_for_bare_numbers() -> None:
    (row,) = parsed("pid, used_gpu_memory [KiB]\n7, 2048\n", None).bookings
    assert row.mib == 2.0


@pytest.mark.parametrize(
    ("cell", "name"),
    [("python -c a, b,c", "python -c a, b,c"), ('"/opt/a, b/python"', "/opt/a, b/python"), ("[Not Found]", None)],
)
def test_a_name_may_hold_commas(cell: str, name: str | None) -> None:
    (row,) = parsed(f"7, {cell}, 512 MiB\n", APPS + "pid,process_name,used_memory" + BARE).bookings
    assert (row.pid, row.name, row.mib) == (7, name, 512.0)


@pytest.mark.parametrize("value", ["[N/A]", "[Insufficient Permissions]", "[GPU requires reset]", "[Unknown Error]"])
def test_a_non_value_is_unknown_and_not_zero(value: str) -> None:
    (sample,) = parsed(f"0, {value}\n", GPUS + "index,memory.used" + BARE).samples
    assert sample.used_mib is None
    (row,) = parsed(f"7, {value}\n", APPS + "pid,used_memory" + BARE).bookings
    assert row.mib is None


def test_a_process_without_a_size_asked_for() -> None:
    (row,) = parsed("7, python3\n", APPS + "pid,name" + BARE).bookings
    assert row.mib is None


def test_gpus_that_no_field_names_are_numbered_in_order() -> None:
    found = parsed("100 MiB\n200 MiB\n", GPUS + "memory.used" + BARE)
    assert [(row.gpu.index, row.used_mib) for row in found.samples] == [(0, 100.0), (1, 200.0)]


def test_a_chosen_gpu_is_the_one_that_i_names() -> None:
    found = parsed("200 MiB\n", GPUS + "memory.used" + BARE + " -i 6")
    assert [row.gpu.index for row in found.samples] == [6]
    assert [row.complete for row in found.coverage] == [False]


def test_an_empty_answer_is_an_empty_list() -> None:
    found = parsed("", APPS + "pid,name" + BARE)
    assert found.bookings == ()
    assert [(row.source, row.outcome, row.complete) for row in found.coverage] == [("compute processes", "ok", True)]


def test_a_substituted_query_shows_nothing() -> None:
    found = parsed("", f"kill -9 $({APPS}pid{BARE})")
    assert found.coverage == ()


def test_a_filter_makes_the_list_incomplete() -> None:
    found = parsed("7, python3\n", APPS + "pid,name" + BARE + " | grep python")
    assert [row.complete for row in found.coverage] == [False]


def test_a_torn_row_is_damage() -> None:
    found = parsed("pid, process_name, used_gpu_memory [MiB]\n7, python3, 5 MiB\n8, pyth", None)
    assert [row.pid for row in found.bookings] == [7]
    assert [(row.line, row.member) for row in found.damage] == [(5, "after/output.txt")]


def test_accounted_processes_hold_nothing_now() -> None:
    found = parsed(
        "pid, gpu_utilization [%], mem_utilization [%], max_memory_usage [MiB], time [ms]\n"
        "7, 1 %, 2 %, 900 MiB, 10 ms\n",
        "nvidia-smi --query-accounted-apps=pid,gpu_util,mem_util,max_memory_usage,time --format=csv",
    )
    assert found.bookings == ()
    assert found.damage == ()


def test_reserved_memory_and_the_driver() -> None:
    found = parsed(
        "GPU-5e, 580.159.04, 616 MiB, 77459 MiB, 143771 MiB\n",
        GPUS + "uuid,driver_version,memory.reserved,memory.used,memory.total" + BARE,
    )
    (sample,) = found.samples
    assert (sample.gpu.uuid, sample.reserved_mib, sample.used_mib, sample.total_mib) == (
        "GPU-5e", 616.0, 77459.0, 143771.0,
    )  # fmt: skip
    assert [(fact.name, fact.value) for fact in found.facts] == [("driver_version", "580.159.04")]


def test_the_stamp_of_a_row_stands_in_for_a_missing_time_and_has_no_zone() -> None:
    text = "2026/03/08 16:02:40.611, 15022 MiB\n"
    command = GPUS + "timestamp,memory.used" + BARE
    (sample,) = parse([evidence(exhibit(text, command, time_ns=None))]).samples
    assert sample.at.time_ns == 1_772_985_760_611_000_000
    assert sample.at.time_error_ns == 14 * 3600 * 10**9
    (timed,) = parse([evidence(exhibit(text, command, time_ns=5))]).samples
    assert (timed.at.time_ns, timed.at.time_error_ns) == (5, 0)


@pytest.mark.parametrize(
    ("text", "exit_code", "outcome"),
    [
        ("bash: nvidia-smi: command not found\n", None, "absent"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9, "absent"),
        ("", 124, "timed_out"),
        ("Killed\n", None, "timed_out"),
        ("what is this\n", 0, "not_understood"),
    ],
)
def test_failures_are_told_apart(text: str, exit_code: int | None, outcome: str) -> None:
    found = parsed(text, GPUS + "memory.used" + BARE, exit_code=exit_code)
    assert [(row.source, row.outcome) for row in found.coverage] == [("gpu memory", outcome)]
    assert bool(found.damage) == (outcome == "not_understood")
