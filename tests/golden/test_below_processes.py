"""What stands below the processes, from pasted text to plan: stuck tasks, faults, refusals, silence of the driver.

The sessions are in the real tools' format and none is a fixture: each shows one mechanism and its nearest look-alike.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import Explanation, explain_fully

PS = "    PID    PPID STAT COMMAND\n"


def explained(tmp_path: Path, text: str, name: str = "session.txt") -> Explanation:
    path = tmp_path / name
    path.write_text(text)
    return explain_fully([path])


def fired(found: Explanation) -> dict[str, str]:
    return {finding.rule: finding.certainty for finding in found.report.findings}


def kinds(found: Explanation) -> list[str]:
    return [entry.kind for entry in found.report.plan.then]


def killed(found: Explanation) -> set[int]:
    return {entry.pid for entry in found.report.plan.kill}


STUCK = """root@box:~# ps -o pid,ppid,stat,wchan:30,args -p 5120
    PID    PPID STAT WCHAN                          COMMAND
   5120       1 D    os_acquire_rwlock_write        VLLM::EngineCore
root@box:~# grep -e State -e Pnd /proc/5120/status
State:\tD (disk sleep)
SigPnd:\t0000000000000100
ShdPnd:\t0000000000000100
root@box:~# nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
5120, VLLM::EngineCore, 40000 MiB
"""


def test_a_pending_sigkill_inside_the_driver_is_not_sent_again(tmp_path: Path) -> None:
    found = explained(tmp_path, STUCK)
    assert fired(found) == {"GPD501": "proven"}
    assert not killed(found)
    assert kinds(found)[-1] == "reboot"
    assert "no kill helps" in found.report.summary


def test_a_reset_or_reboot_comes_after_the_question_to_others(tmp_path: Path) -> None:
    text = STUCK + "7100, python3, 20100 MiB\n"
    then = explained(tmp_path, text).report.plan.then
    asks = [n for n, entry in enumerate(then) if entry.kind == "ask_owner" and "7100" in entry.because]
    last = [n for n, entry in enumerate(then) if entry.kind in ("reboot", "gpu_reset")]
    assert asks
    assert last
    assert max(asks) < min(last)


def test_a_reset_is_proposed_where_the_driver_asks_for_one(tmp_path: Path) -> None:
    text = """root@box:~# nvidia-smi --query-gpu=index,pci.bus_id,memory.used --format=csv,noheader
0, 00000000:3B:00.0, 40122 MiB
1, 00000000:5E:00.0, 3 MiB
root@box:~# dmesg -T | grep NVRM
[Mon Mar  2 09:15:41 2026] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)
"""
    found = explained(tmp_path, text)
    assert fired(found)["GPD502"] == "proven"
    (reset,) = [entry for entry in found.report.plan.then if entry.kind == "gpu_reset"]
    assert reset.command == "sudo nvidia-smi --gpu-reset -i 0"
    assert "once every process of everybody else is off" in reset.because
    (gpu,) = next(finding for finding in found.report.findings if finding.rule == "GPD502").gpus
    assert gpu.endswith("gpu0")


@pytest.mark.parametrize(
    "line",
    [
        "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
        "45, pid=5120, name=python3, Ch 00000008",
        "13, pid=5120, name=python3, Graphics Exception: ESR 0x404490=0x80000001",
    ],
)
def test_other_xids_ask_for_no_reset(tmp_path: Path, line: str) -> None:
    text = f"""root@box:~# nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, 3 MiB
root@box:~# dmesg -T | grep NVRM
[Mon Mar  2 09:15:41 2026] NVRM: Xid (PCI:0000:3b:00): {line}
"""
    found = explained(tmp_path, text)
    assert "GPD502" not in fired(found)
    assert not {"gpu_reset", "reboot"} & set(kinds(found))


def test_an_old_error_on_a_gpu_that_answers_is_possible_only(tmp_path: Path) -> None:
    text = """root@box:~# nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, 3 MiB
root@box:~# dmesg | grep NVRM
[ 1843.308145] NVRM: Xid (PCI:0000:3b:00): 119, pid=5120, name=python3, Timeout waiting for RPC from GSP!
"""
    found = explained(tmp_path, text)
    assert fired(found)["GPD502"] == "possible"
    assert not {"gpu_reset", "reboot"} & set(kinds(found))


def test_a_broken_fan_is_no_broken_gpu(tmp_path: Path) -> None:
    table = """root@box:~# nvidia-smi
+-----------------------------------------+------------------------+----------------------+
| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |
|   0  NVIDIA RTX 4090                On  |   00000000:01:00.0 Off |                  Off |
|ERR!   42C    P0             62W /  450W |      12MiB /  24564MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
    assert "GPD502" not in fired(explained(tmp_path, table))


def test_while_the_driver_hangs_nobody_is_sent_to_ask_it_again(tmp_path: Path) -> None:
    found = explained(tmp_path, "root@box:~# timeout -s KILL 60 nvidia-smi; echo rc=$?\nKilled\nrc=137\n")
    assert fired(found) == {"GPD504": "proven"}
    assert not any("nvidia-smi" in (entry.command or "") for entry in found.report.plan.then)


def test_a_refused_reset_leaves_the_figure_standing(tmp_path: Path) -> None:
    text = """root@box:~# nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, 3 MiB
root@box:~# nvidia-smi --gpu-reset -i 0
The following GPUs could not be reset:
  GPU 00000000:1A:00.0: In use by another client

root@box:~# fuser -v /dev/nvidia0
                     USER        PID ACCESS COMMAND
/dev/nvidia0:        root       1874 F.... nvidia-persiste
"""
    found = explained(tmp_path, text)
    assert found.report.outcome == "nothing_held"
    assert fired(found)["GPD505"] == "proven"
    assert not killed(found)
    assert "persistence_off" in kinds(found)


def test_a_reset_that_was_not_refused_makes_the_figure_old(tmp_path: Path) -> None:
    text = """root@box:~# nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, 40122 MiB
root@box:~# nvidia-smi --gpu-reset -i 0
GPU 00000000:1A:00.0 was successfully reset.
All done.
"""
    assert explained(tmp_path, text).report.outcome == "inconclusive"


def test_memory_of_another_user_is_not_what_a_refused_kill_was_meant_to_free(tmp_path: Path) -> None:
    text = """ci@box:~$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
5120, python3, 71290 MiB
ci@box:~$ ps -o user,pid,ppid,stat,args -p 5120
USER         PID    PPID STAT COMMAND
svc         5120    5100 Sl   python3 serve.py
ci@box:~$ kill -9 5120 2>/dev/null
ci@box:~$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
5120, python3, 71290 MiB
ci@box:~$ ps -o user,pid,ppid,stat,args -p 5120
USER         PID    PPID STAT COMMAND
svc         5120    5100 Sl   python3 serve.py
"""
    found = explained(tmp_path, text)
    assert "GPD602" in fired(found)
    assert found.report.outcome == "nothing_held"
    assert not killed(found)
    assert kinds(found) == ["ask_owner"]


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.19 GiB "
    "of which 1.00 GiB is free. Process 5120 has 70.00 GiB memory in use. Including non-PyTorch memory, this process "
    "has 8.00 GiB memory in use.\n"
)


def test_a_log_alone_names_numbers_to_look_up_and_nobody_to_kill(tmp_path: Path) -> None:
    found = explained(tmp_path, OOM, "server.log")
    assert found.report.outcome == "inconclusive"
    assert "5120" in found.report.summary
    assert not killed(found)
    assert any("-p 5120" in (entry.command or "") for entry in found.report.plan.then)


def test_an_out_of_memory_message_ties_memory_to_a_process_that_ps_shows(tmp_path: Path) -> None:
    text = f"$ tail -1 server.log\n{OOM}$ ps -o pid,ppid,stat,args -p 5120\n{PS}   5120       1 Sl   python3 old.py\n"
    (row,) = explained(tmp_path, text).facts["holder"]
    assert (row["pid"], row["holds_mib"]) == (5120, 71680.0)


@pytest.mark.parametrize(
    "after",
    [
        f"$ kill -9 5120\n$ ps -o pid,ppid,stat,args -p 5120\n{PS}   5120       1 Sl   python3 other.py\n",
        f"$ ps -o pid,ppid,stat,args -p 5120\n{PS}   5120       1 Z    [python3] <defunct>\n",
        "$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader\n"
        f"$ ps -o pid,ppid,stat,args -p 5120\n{PS}   5120       1 Sl   python3 old.py\n",
    ],
    ids=["a kill in between", "a zombie", "a list that does not have it"],
)
def test_a_message_is_no_booking_where_something_speaks_against_it(tmp_path: Path, after: str) -> None:
    found = explained(tmp_path, f"$ tail -1 server.log\n{OOM}{after}")
    assert not any(row["holds_mib"] for row in found.facts["holder"])


def test_a_start_that_failed_says_how_much_was_free(tmp_path: Path) -> None:
    line = (
        "ValueError: Free memory on device cuda:0 (8.50/80.00 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 72.00 GiB). Decrease GPU memory utilization.\n"
    )
    found = explained(tmp_path, f"(EngineCore_DP0 pid=71) {line}", "server.log")
    assert "only 8,704 MiB of 81,920 MiB were free" in found.report.summary
    assert "GPD901" in fired(found)
    assert not killed(found)


def test_a_fall_that_stops_halfway_is_no_release_and_no_teardown(tmp_path: Path) -> None:
    text = """root@box:~# nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, 73644 MiB
root@box:~# kill -9 5120
root@box:~# nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, 40122 MiB
root@box:~# nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, 40122 MiB
"""
    found = explained(tmp_path, text)
    assert found.report.outcome == "inconclusive"
    assert not {"GPD301", "GPD605"} & set(fired(found))


def test_memory_that_fell_without_any_list_came_back(tmp_path: Path) -> None:
    text = """root@box:~# nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, 73644 MiB
root@box:~# kill -9 5120
root@box:~# nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, 4 MiB
"""
    found = explained(tmp_path, text)
    assert found.report.outcome == "released"
    assert fired(found)["GPD605"] == "inferred"


def test_the_kernels_own_kill_counts_as_delivered(tmp_path: Path) -> None:
    text = f"""root@box:~# dmesg -T | tail -1
[Mon Mar  2 09:15:40 2026] Out of memory: Killed process 5120 (python3) total-vm:91205212kB, anon-rss:65012345kB
root@box:~# ps -eo pid,ppid,stat,args | grep -e PID -e 5120 | grep -v grep
{PS}   5120       1 Zl   [python3] <defunct>
root@box:~# nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
5120, [No data], 40000 MiB
"""
    found = explained(tmp_path, text)
    (row,) = found.facts["holder"]
    assert row["kill_delivered"] is True
    assert not killed(found)


@pytest.mark.parametrize(("probe", "hidden"), [("rc=0\n", True), ("rc=1\n", False), ("", False)])
def test_only_an_answer_of_the_kernel_makes_a_missing_pid_a_hidden_one(
    tmp_path: Path, probe: str, hidden: bool
) -> None:
    text = f"""root@box:~# nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader
5120, 439 MiB
root@box:~# ps aux | grep 5120 | grep -v grep
root@box:~# kill -0 5120; echo rc=$?
{probe}"""
    found = explained(tmp_path, text)
    assert ("GPD403" in fired(found)) is hidden
    assert not killed(found)
