"""The scan of /proc: who is of interest, and what a file costs that never returns."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from gpudiag.collect import processes
from gpudiag.collect.source import Ended
from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Process
from gpudiag.parse.formats import rows
from tests.unit.collect.stubs import ProcTree, Rows, machine

CONTAINER = "/docker/5c1d"


def scan(root: Path, own: tuple[int, ...] = (), booked: tuple[int, ...] = ()) -> dict[str, Any]:
    out = Rows()
    try:
        processes.produce(machine(root), out, lambda: (own, booked))
    except Ended as end:
        return {**json.loads("\n".join(out.rows)), "ended": (end.outcome, end.because)}
    return json.loads("\n".join(out.rows))


def pids(found: dict[str, Any]) -> set[int]:
    return {int(key) for key in found if key.isdecimal()}


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    tree = ProcTree(tmp_path)
    tree.add(1, 0)
    tree.add(2, 0, kernel=True)
    tree.add(30, 2, state="D", kernel=True)
    return tree


def test_descriptor_makes_a_process_interesting_and_its_relatives_with_it(tree: ProcTree) -> None:
    tree.add(10, 1)
    tree.add(11, 10, pgid=11, sid=11, fds={3: "/dev/nvidia0", 4: "/dev/null"})
    tree.add(12, 11, pgid=12, sid=12)
    tree.add(13, 1, pgid=11, sid=13)
    tree.add(14, 1, pgid=14, sid=11)
    tree.add(20, 1, pgid=20, sid=20)
    found = scan(tree.root)
    assert pids(found) == {1, 10, 11, 12, 13, 14}
    assert found["11"]["nvidia_fds"] == {"3": "/dev/nvidia0"}
    assert found["11"]["cmdline"] == "python3\0serve.py\0"
    assert found["scan"]["processes"] == 9


def test_environment_goes_by_its_list(tree: ProcTree) -> None:
    folder = tree.add(11, fds={3: "/dev/nvidia0"})
    pairs = {
        "SLURM_JOB_ID": "77", "HF_TOKEN": "x", "CUDA_VISIBLE_DEVICES": "0,1", "PATH": "/bin", "LOCAL_RANK": "3",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1", "VLLM_API_KEY": "y", "JPY_PARENT_PID": "9", "HOME": "/root",
        "RAY_ADDRESS": "auto", "CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps",
    }  # fmt: skip
    (folder / "environ").write_bytes("\0".join(f"{name}={value}" for name, value in pairs.items()).encode())
    out = Rows()
    processes.produce(machine(tree.root), out, lambda: ((), ()))
    expected = {
        "SLURM_JOB_ID": "77", "CUDA_VISIBLE_DEVICES": "0,1", "LOCAL_RANK": "3", "KUBERNETES_SERVICE_HOST": "present",
        "JPY_PARENT_PID": "9", "RAY_ADDRESS": "auto", "CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps",
    }  # fmt: skip
    text = "\n".join(out.rows) + "\n"
    assert json.loads(text)["11"]["environ"] == expected
    exhibit = Exhibit("I1", "look-1/proc.json", "h", "I1:look-1", None, None, None, None, 1, text)
    (row,) = [row for row in rows(exhibit) if isinstance(row, Process) and row.pid == 11]
    assert dict(row.environ) == expected


def test_mapping_without_descriptor(tree: ProcTree) -> None:
    tree.add(11, maps="7f00-7f01 rw-s 00000000 00:06 12    /dev/nvidia-uvm\n7f02-7f03 r--p 0 00:00 0 /lib/nvidia.so\n")
    found = scan(tree.root)
    assert found["11"]["nvidia_maps"] == ["/dev/nvidia-uvm"]


def test_thread_of_a_dead_leader_still_has_the_devices(tree: ProcTree) -> None:
    tree.add(11, state="Z", threads={12: {5: "/dev/nvidiactl"}})
    found = scan(tree.root)
    assert found["11"]["nvidia_fds"] == {"5": "/dev/nvidiactl"}
    assert set(found["11"]["tasks"]) == {"11", "12"}


def test_thread_with_descriptors_of_its_own(tree: ProcTree) -> None:
    tree.add(11, fds={0: "/dev/null"}, threads={12: {0: "/dev/null", 9: "/dev/nvidia1"}, 13: {0: "/dev/null"}})
    assert scan(tree.root)["11"]["nvidia_fds"] == {"9": "/dev/nvidia1"}


def test_booked_pid_without_any_descriptor(tree: ProcTree) -> None:
    tree.add(11)
    assert 11 in pids(scan(tree.root, booked=(11, 4040)))


def test_cgroup_of_a_container_is_a_tie_and_that_of_a_login_is_none(tree: ProcTree) -> None:
    login = "/user.slice/user-0.slice/session-1.scope"
    tree.add(11, cgroup=CONTAINER, fds={3: "/dev/nvidia0"})
    tree.add(12, cgroup=CONTAINER)
    tree.add(13, cgroup=login, fds={3: "/dev/nvidia0"})
    tree.add(14, cgroup=login)
    assert pids(scan(tree.root)) == {1, 11, 12, 13}


def test_the_collectors_own_children_bring_nobody_in(tree: ProcTree) -> None:
    tree.add(10)
    tree.add(11, 10, pgid=10, fds={3: "/dev/nvidia0"})
    tree.add(12, 1, pgid=10)
    assert pids(scan(tree.root, own=(11,))) == set()


def test_dead_and_hanging_processes_are_of_interest_and_kernel_threads_are_not(tree: ProcTree) -> None:
    tree.add(11, state="Z")
    tree.add(12, state="D")
    assert pids(scan(tree.root)) == {1, 11, 12}


def test_pid_2_of_a_container_is_a_process_like_others(tree: ProcTree) -> None:
    (tree.root / "2" / "stat").write_text("2 (vllm) S 1 2 2 " + "0 " * 15 + "50 4096 0\n")
    tree.add(40, 2, fds={3: "/dev/nvidia0"})
    found = scan(tree.root)
    assert pids(found) == {1, 2, 40}


def test_process_that_vanishes_is_no_failure(tree: ProcTree) -> None:
    tree.add(11, fds={3: "/dev/nvidia0"})
    (tree.root / "15").mkdir()
    found = scan(tree.root)
    assert pids(found) == {1, 11}
    assert "ended" not in found


@pytest.mark.parametrize("name", ["maps", "cmdline", "stat"])
def test_file_that_never_returns_costs_one_row(tree: ProcTree, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STALL_S", 0.2)
    tree.add(11, fds={3: "/dev/nvidia0"})
    folder = tree.add(12, fds={3: "/dev/nvidia0"})
    tree.add(13, fds={3: "/dev/nvidia0"})
    (folder / name).unlink()
    os.mkfifo(folder / name)
    begun = time.monotonic()
    found = scan(tree.root)
    assert time.monotonic() - begun < 2
    assert found["scan"]["did_not_return"] == [12]
    assert found["ended"][0] == "truncated"
    assert found["11"]["cmdline"] == found["13"]["cmdline"] == "python3\0serve.py\0"
    if name != "stat":
        assert found["12"]["unread"] == ["cmdline", "exe", "environ"]
        assert found["12"]["nvidia_fds"] == {"3": "/dev/nvidia0"}


def test_many_files_that_never_return_end_the_search(tree: ProcTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STALL_S", 0.1)
    for pid in range(100, 140):
        folder = tree.add(pid)
        (folder / "maps").unlink()
        os.mkfifo(folder / "maps")
    begun = time.monotonic()
    found = scan(tree.root)
    assert time.monotonic() - begun < 3
    assert len(found["scan"]["did_not_return"]) == 40


def test_two_thousand_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = ProcTree(tmp_path)
    tree.add(1, 0)
    for pid in range(100, 2100):
        tree.add(pid, fds={3: "/dev/nvidia0"} if pid % 100 == 0 else {3: "/dev/null"}, sid=pid, pgid=pid)
    begun = time.monotonic()
    found = scan(tree.root)
    seconds = time.monotonic() - begun
    with capsys.disabled():
        print(f" [2,000 processes: {seconds:.2f} s]", end="")
    assert pids(found) == {1, *range(100, 2100, 100)}
    assert seconds < 10
