"""Device memory of a dead process that another one keeps mapped."""

from __future__ import annotations

from pathlib import Path

from gpudiag.explain import explain

LIST = "root@box:~# nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv,noheader\n"
UUID = "GPU-4b5e9d13-77c0-4a42-8f41-9a0b1c2d3e4f"
TABLE = """root@box:~# ps -eo pid,ppid,pgid,sid,user:12,stat,comm,args
    PID    PPID    PGID     SID USER         STAT COMMAND         COMMAND
      1       0       1       1 root         Ss   systemd         /sbin/init
      2       0       0       0 root         S    kthreadd        [kthreadd]
   4188       1    4188    4188 root         Sl   python3         python3 importer.py
   4320    4300    4320    4300 root         R+   ps              ps -eo pid,ppid,pgid,sid,user:12,stat,comm,args
"""


def _session(before: int, after: int) -> str:
    first = LIST + f"{UUID}, 4101, python3, 5638 MiB\n{UUID}, 4188, python3, {before} MiB\n"
    return first + "root@box:~# kill -9 4101; sleep 5\n" + LIST + f"{UUID}, 4188, python3, {after} MiB\n" + TABLE


def test_memory_that_moved_to_an_importer_is_still_held(tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    path.write_text(_session(518, 5638))
    report = explain([path])
    assert report.outcome == "memory_held"
    assert "GPD204" in {finding.rule for finding in report.findings}
    assert not report.plan.kill


def test_a_neighbour_that_keeps_its_own_size_is_no_importer(tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    path.write_text(_session(5638, 5638))
    report = explain([path])
    assert report.outcome != "memory_held"
    assert "GPD204" not in {finding.rule for finding in report.findings}
