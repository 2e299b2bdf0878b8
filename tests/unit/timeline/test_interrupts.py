"""Ctrl-C as a command: to whom, and to whom not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import explain
from gpudiag.report.contract import Report

LIST = "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv,noheader"


def report(tmp_path: Path, text: str) -> Report:
    path = tmp_path / "session.txt"
    path.write_text(text)
    return explain([path])


def hit(found: Report) -> list[tuple[int, ...]]:
    return [tuple(sorted(step.hit)) for action in found.actions for step in action.steps]


def test_the_log_of_the_job_names_it(tmp_path: Path) -> None:
    text = f"""\
user@box:~$ python3 serve.py --port 8000
INFO:     Started server process [4711]
^CINFO:     Shutting down
user@box:~$ {LIST}
GPU-1, 4711, python3, 26402 MiB
GPU-1, 4712, python3, 1000 MiB
"""
    found = report(tmp_path, text)
    assert hit(found) == [(4711,)]
    assert [entry.pid for entry in found.plan.kill] == [4711]
    assert "GPD107" in {finding.rule for finding in found.findings}


@pytest.mark.parametrize("command", ["docker run --gpus all image", "watch -n1 nvidia-smi", "tail -f server.log"])
def test_clients_and_viewers_are_no_job_of_this_host(tmp_path: Path, command: str) -> None:
    text = f"""\
user@box:~$ {command}
INFO:     Started server process [4711]
^C
user@box:~$ {LIST}
GPU-1, 4711, python3, 26402 MiB
"""
    found = report(tmp_path, text)
    assert found.actions == ()
    assert found.plan.kill == ()


def ranks(before: str, after: str) -> str:
    return f"user@box:~$ {LIST}\n{before}user@box:~$ fg\npython train.py -d 2\n^C\nuser@box:~$ {LIST}\n{after}"


ONE = "GPU-1, 501, /env/bin/python, 29347 MiB\n"
TWO = "GPU-2, 502, /env/bin/python, 29347 MiB\n"


def test_ranks_of_one_launch_of_which_one_is_left(tmp_path: Path) -> None:
    found = report(tmp_path, ranks(ONE + TWO, TWO))
    assert hit(found) == [(501, 502)]
    assert [entry.pid for entry in found.plan.kill] == [502]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ONE + TWO, ONE + TWO),
        (ONE + TWO.replace("502", "9502"), TWO.replace("502", "9502")),
        (ONE + TWO.replace("29347", "21000"), TWO.replace("29347", "21000")),
        (ONE + TWO.replace("/env/", "/home/b/env/"), TWO.replace("/env/", "/home/b/env/")),
        (ONE + TWO.replace("GPU-2", "GPU-1"), TWO.replace("GPU-2", "GPU-1")),
        (ONE.replace("python", "julia") + TWO.replace("python", "julia"), TWO.replace("python", "julia")),
    ],
    ids=["nobody ended", "far PIDs", "other size", "other environment", "one GPU", "other program"],
)
def test_what_may_be_two_jobs_is_not_one(tmp_path: Path, before: str, after: str) -> None:
    found = report(tmp_path, ranks(before, after))
    assert found.actions == ()
    assert found.plan.kill == ()
