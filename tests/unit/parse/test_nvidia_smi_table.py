"""The table of plain nvidia-smi: shapes of four drivers, and cuts."""

from __future__ import annotations

import pytest

from gpudiag.model import GpuRef
from gpudiag.parse import Parsed
from tests.unit.parse.exhibits import H200, capture, parsed

R470 = """\
Thu Nov 25 15:20:44 2021
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:3B:00.0 Off |                    0 |
| N/A   62C    P0   241W / 300W |  29350MiB / 32510MiB |     98%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-SXM2...  On   | 00000000:AF:00.0 Off |                    0 |
| N/A   64C    P0   238W / 300W |  Not Supported       |     97%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|    0   N/A  N/A     52573      C   ...a3/envs/yolovx/bin/python    29347MiB |
|    1   N/A  N/A     52574    C+G   /usr/bin/a name with blanks          N/A |
+-----------------------------------------------------------------------------+
"""
R384 = """\
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0      2671      C   nvidia-cuda-mps-server                        27MiB |
|    0     28411    M+C   /home/user/env/bin/python                   5601MiB |
+-----------------------------------------------------------------------------+
"""
R610 = """\
| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |
"""


def test_a_whole_table() -> None:
    found = parsed(R470, "nvidia-smi")
    first, second = found.samples
    assert (first.gpu, first.used_mib, first.total_mib, first.name) == (
        GpuRef(index=0, bus_id="00000000:3b:00.0"), 29350.0, 32510.0, "Tesla V100-SXM2...",
    )  # fmt: skip
    assert not first.used_includes_reserve
    assert second.gpu.index == 1
    assert second.used_mib is None
    assert second.total_mib is None
    assert [(row.pid, row.mib, row.name, row.kind, row.gpu.bus_id) for row in found.bookings] == [
        (52573, 29347.0, "...a3/envs/yolovx/bin/python", "compute", "00000000:3b:00.0"),
        (52574, None, "/usr/bin/a name with blanks", "both", "00000000:af:00.0"),
    ]
    assert {(fact.name, fact.value) for fact in found.facts} == {
        ("shown_time", "Thu Nov 25 15:20:44 2021"),
        ("driver_version", "470.82.01"),
        ("cuda_version", "11.4"),
        ("nvidia_smi_version", "470.82.01"),
    }
    assert [(row.source, row.outcome, row.complete) for row in found.coverage] == [
        ("gpu memory", "ok", True),
        ("compute processes", "ok", True),
    ]
    assert found.coverage[1].names_missing == ("dead",)


def test_citations_name_the_line_in_the_file() -> None:
    found = parsed(R470, "nvidia-smi")
    lines = R470.split("\n")
    assert found.bookings[0].cited.line == 3 + next(at for at, line in enumerate(lines) if "52573" in line)


def test_rows_of_old_drivers_have_no_instance_columns() -> None:
    found = parsed(R384, "nvidia-smi | tail -6")
    assert [(row.pid, row.mib, row.name, row.kind) for row in found.bookings] == [
        (2671, 27.0, "nvidia-cuda-mps-server", "compute"),
        (28411, 5601.0, "/home/user/env/bin/python", "mps"),
    ]


def test_versions_under_their_new_names() -> None:
    assert {(fact.name, fact.value) for fact in parsed(R610, "nvidia-smi").facts} == {
        ("driver_version", "610.43.02"),
        ("cuda_version", "13.3"),
        ("nvidia_smi_version", "610.43.02"),
    }


@pytest.mark.parametrize(("kept", "gpus"), [(4, 0), (9, 1), (14, 2), (19, 2), (21, 2)])
def test_a_table_that_is_cut_says_nothing_about_absent_processes(kept: int, gpus: int) -> None:
    found = parsed("\n".join(R470.split("\n")[:kept]), "nvidia-smi | head")
    assert len(found.samples) == gpus
    lists = [row for row in found.coverage if row.source == "compute processes"]
    assert [(row.outcome, row.complete) for row in lists] == [("truncated", False)]


def test_nobody_in_the_list_is_an_answer() -> None:
    found = capture("idle")
    answers = [row for row in found.coverage if row.cited and row.cited.member == "after/nvidia-smi.txt"]
    assert [(row.source, row.outcome, row.complete) for row in answers] == [
        ("gpu memory", "ok", True),
        ("compute processes", "ok", True),
    ]
    assert found.bookings == ()


def test_the_table_leaves_out_a_zombie_that_the_csv_lists() -> None:
    found = capture("zombie-leader")
    by_member = {
        member: {row.pid for row in found.bookings if row.cited.member == f"after/{member}"}
        for member in ("nvidia-smi.txt", "query-apps.csv", "pmon.txt")
    }
    assert 1410 in by_member["query-apps.csv"]
    assert by_member["nvidia-smi.txt"] == by_member["pmon.txt"] == by_member["query-apps.csv"] - {1410}


@pytest.mark.parametrize("folder", sorted(path.name for path in H200.iterdir() if (path / "after").is_dir()))
def test_table_and_csv_of_a_look_agree(folder: str) -> None:
    found = capture(folder)
    for look in found.looks:
        table = _by_pid(found, look.name, "nvidia-smi.txt")
        csv = _by_pid(found, look.name, "query-apps.csv")
        for pid, (size, name) in table.items():
            assert csv[pid] == (size, name)
        assert all(csv[pid][1] is None for pid in csv.keys() - table.keys())


def _by_pid(found: Parsed, look: str, member: str) -> dict[int, tuple[float | None, str | None]]:
    return {row.pid: (row.mib, row.name) for row in found.bookings if row.cited.member == f"{look}/{member}"}


WINDOWS = """\
Fri Feb 20 19:00:06 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 572.16                 Driver Version: 572.16         CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4090      WDDM  |   00000000:01:00.0  On |                  Off |
|  0%   41C    P8             17W /  450W |   23711MiB /  24564MiB |      3%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A            1384    C+G   Insufficient Permissions                 N/A      |
|    0   N/A  N/A            9124    C+G   C:\\Windows\\explorer.exe                   N/A      |
|    0   N/A  N/A           21412      C   ...s\\Python\\Python311\\python.exe          N/A      |
+-----------------------------------------------------------------------------------------+
"""
MIG = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                   On |
| N/A   33C    P0             91W /  400W |   19550MiB /  40960MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  0    1   0   0  |           19543MiB / 20096MiB    | 42      0 |  3   0    2    0    0 |
|                  |                 4MiB / 32767MiB  |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0    2   0   1  |              12MiB / 20096MiB    | 42      0 |  3   0    2    0    0 |
|                  |                 0MiB / 32767MiB  |           |                       |
+------------------+----------------------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0    1    0      17644      C   python3                                     19512MiB |
+-----------------------------------------------------------------------------------------+
"""


def test_windows_has_no_figures_for_processes_and_hides_names() -> None:
    found = parsed(WINDOWS, "nvidia-smi")
    assert [(row.gpu.index, row.used_mib) for row in found.samples] == [(0, 23711.0)]
    assert [(row.pid, row.mib, row.name, row.name_missing) for row in found.bookings] == [
        (1384, None, None, "Insufficient Permissions"),
        (9124, None, "C:\\Windows\\explorer.exe", None),
        (21412, None, "...s\\Python\\Python311\\python.exe", None),
    ]


def test_mig_devices_are_parts_of_their_gpu_and_no_gpus() -> None:
    found = parsed(MIG, "nvidia-smi")
    assert [(row.gpu.index, row.used_mib) for row in found.samples] == [(0, 19550.0)]
    assert [(row.gpu.index, row.pid, row.mib) for row in found.bookings] == [(0, 17644, 19512.0)]
    assert [(row.source, row.outcome, row.complete) for row in found.coverage] == [
        ("gpu memory", "ok", True),
        ("compute processes", "ok", True),
    ]


def test_a_table_cut_in_the_mig_block_has_no_process_list() -> None:
    found = parsed("\n".join(MIG.split("\n")[:20]), "nvidia-smi")
    assert [(row.source, row.outcome) for row in found.coverage] == [
        ("gpu memory", "ok"),
        ("compute processes", "truncated"),
    ]


NEW_ROWS = """\
| 30%   33C    P8             20W /  600W |   90000MiB /  97887MiB |      0%      Default |
| N/A   34C    P0              63W / 400W |  73221MiB / 81920MiB   |      0%      Default |
"""
OLD_ROWS = """\
| N/A   62C    P0   241W / 300W |  29350MiB / 32510MiB |     98%      Default |
| 23%   31C    P8     9W / 250W |     12MiB / 11178MiB |      0%   E. Process |
"""
MIG_ROWS = """\
| N/A   32C    P0    66W / 400W |    25MiB / 40536MiB |     N/A      Default |
|  0    1   0   0  |      7MiB / 20096MiB  | 42      0 |  3   0    2    0    0 |
|                  |      0MiB / 32767MiB  |           |                       |
"""
LISTED = "|    1   N/A  N/A     52574      C   VLLM::Worker_TP0                 73214MiB |\n"


@pytest.mark.parametrize(
    "command",
    [
        "nvidia-smi | grep MiB",
        "nvidia-smi | grep -i mib",
        "sudo nvidia-smi | grep --color 'MiB /'",
        "kill 7; nvidia-smi|grep MiB",
    ],
)
@pytest.mark.parametrize(("rows", "figures"), [(NEW_ROWS, [90000, 73221]), (OLD_ROWS, [29350, 12])])
def test_memory_rows_alone_are_the_gpus_in_order(command: str, rows: str, figures: list[float]) -> None:
    found = parsed(rows + LISTED, command)
    assert [(row.gpu, row.used_mib) for row in found.samples] == [
        (GpuRef(index=0), figures[0]),
        (GpuRef(index=1), figures[1]),
    ]
    assert {row.name for row in found.samples} == {None}
    assert [(row.pid, row.gpu.index, row.mib) for row in found.bookings] == [(52574, 1, 73214.0)]
    outcomes = {row.source: (row.outcome, row.complete) for row in found.coverage}
    assert outcomes == {"gpu memory": ("ok", None), "compute processes": ("truncated", False)}


def test_the_memory_row_of_a_chosen_gpu_is_its_own() -> None:
    (row,) = parsed(NEW_ROWS.splitlines()[0], "nvidia-smi -i 3 | grep MiB").samples
    assert row.gpu == GpuRef(index=3)


def test_mig_devices_are_no_gpus_of_their_own() -> None:
    found = parsed(MIG_ROWS, "nvidia-smi | grep MiB")
    assert [(row.gpu.index, row.used_mib) for row in found.samples] == [(0, 25.0)]


@pytest.mark.parametrize(
    "command",
    [
        "nvidia-smi | grep 90000",
        "nvidia-smi | grep -v MiB",
        "nvidia-smi | grep -m1 MiB",
        "nvidia-smi | grep MiB | tail -1",
        "nvidia-smi | grep -e MiB -e Default",
        "nvidia-smi -i 0,2 | grep MiB",
        "nvidia-smi -i GPU-1a | grep MiB",
        "grep MiB smi.txt",
        None,
    ],
)
def test_where_a_filter_may_have_dropped_a_gpu_the_order_tells_nothing(command: str | None) -> None:
    assert parsed(NEW_ROWS, command).samples == ()


def test_a_whole_table_is_not_read_by_order() -> None:
    assert [row.gpu.bus_id for row in parsed(R470, "nvidia-smi | grep MiB").samples] == [
        "00000000:3b:00.0",
        "00000000:af:00.0",
    ]
