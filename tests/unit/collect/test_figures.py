"""The figures of the collector's last line, from what NVML and nvidia-smi have answered."""

from __future__ import annotations

import json

import pytest

from gpudiag.collect.figures import booked_mib, tells_of_gpu, used_mib
from gpudiag.collect.runner import Job
from gpudiag.collect.source import Source

GPUS = "timestamp, index, memory.used [MiB]\nnow, 0, 900 MiB\nnow, 1, [N/A]\n"
APPS = "timestamp, pid, used_gpu_memory [MiB]\nnow, 77, 800 MiB\nnow, 77, 50 MiB\nnow, 78, [N/A]\n"
NVML = json.dumps({"gpus": [{"index": 0, "used_v2": 1000 << 20, "Compute": [[79, 900 << 20]]}]})


def answered(member: str, text: str, outcome: str = "ok") -> Job:
    job = Job(Source(member, member, 1), member, None)
    job.text += text.encode()
    job.outcome = outcome
    return job


def test_nvidia_smi_counts_where_nvml_has_not_answered() -> None:
    jobs = [answered("query-gpu.csv", GPUS), answered("query-apps.csv", APPS)]
    assert used_mib(jobs) == {0: 900.0}
    assert booked_mib(jobs) == {77: 850.0, 78: 0.0}
    assert booked_mib([*jobs, answered("nvml.json", NVML)]) == {79: 900.0}


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "pid\n77\n", "pid, used_gpu_memory [MiB]\nx, 1 MiB\n7\n"]
)
def test_what_is_no_list_books_nothing(text: str) -> None:
    assert booked_mib([answered("query-apps.csv", text)]) == {}


def test_a_list_that_failed_books_nothing() -> None:
    assert booked_mib([answered("query-apps.csv", APPS, "denied")]) == {}


@pytest.mark.parametrize(
    ("member", "text", "outcome", "told"),
    [
        ("nvidia-smi.txt", "| N/A   31C    P0 |  900MiB / 1000MiB |", "ok", True),
        ("q.xml", '<gpu id="00000000:00:06.0">', "ok", True),
        ("query-gpu.csv", "index, memory.used [MiB]\n0, [N/A]\n", "ok", True),
        ("nvml.json", NVML, "ok", True),
        ("nvidia-smi.txt", "", "ok", False),
        ("nvidia-smi.txt", "\0\1\2 noise", "ok", False),
        ("nvidia-smi.txt", "| 900MiB / 1000MiB |", "timed_out", False),
    ],
)
def test_an_answer_is_one_that_tells_of_a_gpu(member: str, text: str, outcome: str, told: bool) -> None:
    assert tells_of_gpu(answered(member, text, outcome)) is told
